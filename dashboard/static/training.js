// Training runs, live from the server's event stream: states, curves in common charts, texts of free running, notes.
import { Curves } from "./curves.js";
import { FreeRunning } from "./free_running.js";

const MOST_NOTES = 100;
const main = document.getElementById("main");
const rows = [...document.querySelectorAll("#runs tbody tr")];
const [x, smooth] = ["x", "smooth"].map((id) => document.getElementById(id));
const notes = document.querySelector("#notes tbody");
const runs = rows.map((row, number) => ({
  number,
  name: row.querySelector("th a").textContent,
  swatch: row.querySelector(".swatch"),
  curves: {},
  updatedAtMs: null,
}));
const curves = new Curves(document.getElementById("curves"), runs);
const texts = new FreeRunning(document.getElementById("free"));

/** Appends new points to columns in place; a figure that the new or the old points lack is null in them. */
function append(columns, added) {
  const nBefore = columns.step?.length ?? 0;
  const nAdded = added.step.length;
  for (const name of new Set([...Object.keys(columns), ...Object.keys(added)])) {
    columns[name] ??= Array(nBefore).fill(null);
    columns[name].push(...(added[name] ?? Array(nAdded).fill(null)));
  }
}

const written = (value, digits) =>
  value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replaceAll(",", "\u202f");

/** Shows the newest figures of a run in its row of the table; does nothing before the first training line. */
function showNewest({ number, curves: { train } }) {
  if (!train) return;
  const row = rows[number];
  const newest = (name) => train[name]?.findLast((value) => value !== null);
  const maxSteps = Number(row.dataset.maxSteps);
  row.querySelector(".of-step").textContent = `${written(newest("step"), 0)}${maxSteps ? ` of ${written(maxSteps, 0)}` : ""}`;
  for (const [name, digits] of [["hours", 2], ["loss", 3], ["frames_per_s", 0]]) {
    const value = newest(name);
    if (value !== undefined) row.querySelector(`.of-${name}`).textContent = written(value, digits);
  }
}

function showState(run, { state, age_s: ageS }) {
  const chip = rows[run.number].querySelector(".state");
  chip.textContent = state;
  chip.className = `chip state ${state}`;
  run.updatedAtMs = ageS === null ? null : Date.now() - 1000 * ageS;
}

function showAges() {
  for (const { number, updatedAtMs } of runs) {
    if (updatedAtMs === null) continue;
    const s = (Date.now() - updatedAtMs) / 1000;
    const [value, unit] = s < 100 ? [s, "s"] : s < 6000 ? [s / 60, "min"] : s < 172_800 ? [s / 3600, "h"] : [s / 86_400, "days"];
    rows[number].querySelector(".of-age").textContent = `${Math.round(Math.max(0, value))} ${unit} ago`;
  }
}

/** Adds notes to the top of the table as plain text, and removes the oldest above `MOST_NOTES`. */
function showNotes(run, added) {
  for (const { kind, step, ...rest } of added) {
    const row = document.createElement("tr");
    row.dataset.run = run.number;
    const said = Object.entries(rest).map(([name, value]) => {
      const text = typeof value === "number" ? Number(value.toPrecision(4)) : Array.isArray(value) ? value.join(", ") || "none" : JSON.stringify(value);
      return `${name} ${text}`;
    });
    for (const text of [run.name, step, kind, said.join("; ")]) row.insertCell().textContent = text;
    row.cells[1].className = "n";
    notes.prepend(row);
  }
  while (notes.rows.length > MOST_NOTES) notes.rows[MOST_NOTES].remove();
  document.getElementById("notes").hidden = notes.rows.length === 0;
}

/** Shows an event of the stream; with `is_anew`, it replaces all curves and notes of its run. */
function take({ data }) {
  const update = JSON.parse(data);
  const run = runs[update.run];
  showState(run, update);
  showAges();
  if (update.free) {
    texts.show(update.free);
    if (update.free.n_damaged) fail(`${update.free.n_damaged} lines of the texts of free running cannot be read; the rest is shown.`);
  }
  if (!update.curves) return;
  if (update.is_anew) {
    run.curves = {};
    notes.querySelectorAll(`[data-run="${run.number}"]`).forEach((row) => row.remove());
  }
  for (const [kind, added] of Object.entries(update.curves)) append((run.curves[kind] ??= {}), added);
  showNotes(run, update.notes);
  showNewest(run);
  if (update.n_damaged) fail(`${update.n_damaged} lines of the metrics of ${run.name} cannot be read; the rest is shown.`);
  document.getElementById("waiting")?.remove();
  draw();
}

/** Shows an error; an empty text hides it. */
function fail(text) {
  const fault = document.getElementById("fault");
  fault.textContent = text;
  fault.hidden = !text;
}

let frame = null;
/** Draws the curves at the next animation frame, once for all calls until then. */
function draw() {
  frame ??= requestAnimationFrame(() => {
    frame = null;
    curves.draw(x.value, Number(smooth.value));
  });
}

// A browser allows a server six connections: a page that nobody sees gives its own back, and reconnects later.
let source = null;
/** Opens the event stream again, or closes it while the page is hidden. */
function follow() {
  source?.close();
  source = null;
  if (document.hidden) return;
  source = new EventSource(main.dataset.events);
  source.addEventListener("message", take);
  source.addEventListener("open", () => fail(""));
  source.addEventListener("error", () => fail("The dashboard does not answer. The last figures are shown, and the page keeps trying."));
}
document.addEventListener("visibilitychange", follow);
follow();

for (const control of [x, smooth]) {
  control.addEventListener("change", () => {
    const query = new URLSearchParams(location.search);
    for (const { id, value } of [x, smooth]) value && value !== "step" ? query.set(id, value) : query.delete(id);
    history.replaceState(null, "", `?${query}`);
    curves.forget();
    draw();
  });
}
addEventListener("themechange", () => {
  curves.forget();
  draw();
});
setInterval(showAges, 1000);
