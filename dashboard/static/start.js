// A form of settings: adds and removes rows, has the values checked by the server while typing, and starts the run.

import { hasToken, post } from "/static/token.js";

const CHECK_AFTER_MS = 400;
const PLAN_AFTER_MS = 1500;
const form = document.getElementById("start");
const status = document.getElementById("status");
const cron = document.getElementById("cron");
const submit = form.querySelector("button[type=submit]");
let timer = 0;
let newest = 0;
const plan = document.getElementById("plan");
let planTimer = 0;
let newestPlan = 0;
let accepted = ""; // what is missing here, and was to be started with all the same

/** Returns the values of the form by dotted path, also those in sections that are off, which the server ignores. */
function read() {
  const values = {};
  for (const each of form.querySelectorAll("[data-path]")) {
    if (each.dataset.kind === "choices") values[each.dataset.path] = [...each.querySelectorAll("input:checked")].map((box) => box.value);
    else values[each.dataset.path] = each.type === "checkbox" ? each.checked : each.value;
  }
  for (const each of form.querySelectorAll("[data-rows]")) values[each.dataset.rows] ??= "";
  return values;
}

/** Shows each error, and each input that does not exist here, at its field or the section around it; hides old ones. */
function showFaults({ faults, missing }) {
  for (const place of form.querySelectorAll(".fault")) place.hidden = true;
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  for (const [path, text] of Object.entries({ ...missing, ...faults })) {
    let at = path;
    while (at && !document.getElementById(`fault-${at}`)) at = at.slice(0, Math.max(0, at.lastIndexOf(".")));
    const place = document.getElementById(`fault-${at}`);
    place.textContent = at === path ? text : `${path}: ${text}`;
    place.hidden = false;
    (document.getElementById(path) ?? document.getElementById(at))?.setAttribute("aria-invalid", "true");
  }
  const n = Object.keys({ ...missing, ...faults }).length;
  status.textContent = n ? `${n === 1 ? "1 field needs" : `${n} fields need`} a correction.` : "";
  status.className = n ? "bad" : "quiet";
}

/** Returns the missing inputs as one text; empty if there are errors too. A worker on another machine may have them. */
function onlyMissing({ faults, missing }) {
  return Object.keys(faults).length ? "" : Object.values(missing).join("\n");
}

/** Shows the errors that the server finds in the form; without a token, and for an outdated answer, does nothing. */
async function check() {
  if (!hasToken()) return;
  const mine = ++newest;
  try {
    const reply = await post(`${form.getAttribute("action")}/check`, { values: read() });
    if (mine === newest) showFaults(reply);
  } catch (error) {
    status.textContent = error.message;
  }
}

/** Forgets that missing inputs were accepted, and resets the name of the button, because the form has changed. */
function withdrawAcceptance() {
  accepted = "";
  submit.textContent = nameSubmit();
}

function nameSubmit() {
  return cron.value.trim() ? "Schedule" : "Start";
}

/** Shows the estimate of the run as a table if its section is open; nothing is started. */
async function showPlan() {
  if (!plan?.open) return;
  const state = document.getElementById("plan-state");
  if (!hasToken()) {
    state.textContent = "The estimate needs the token of this dashboard.";
    return;
  }
  const mine = ++newestPlan;
  state.textContent = "Estimating …";
  try {
    const reply = await post(`${form.getAttribute("action")}/plan`, { values: read() });
    if (mine !== newestPlan) return;
    const n = Object.keys(reply.faults).length;
    state.textContent = n ? `${n === 1 ? "1 field needs" : `${n} fields need`} a correction before the estimate can be made.` : "";
    fillPlan(n ? [] : reply.figures);
  } catch (error) {
    if (mine !== newestPlan) return;
    state.textContent = error.message;
    fillPlan([]);
  }
}

/** Returns the pieces of a text: <code> elements for what is between backticks, strings for the rest. */
function marked(text) {
  return text.split("`").map((piece, n) => n % 2 ? Object.assign(document.createElement("code"), { textContent: piece }) : piece);
}

/** Replaces the rows of the table of estimates; hides it if there are no figures. */
function fillPlan(figures) {
  const table = document.getElementById("plan-figures");
  table.hidden = !figures.length;
  table.tBodies[0].replaceChildren(...figures.map((figure) => {
    const row = document.createElement("tr");
    for (const name of ["title", "value", "formula", "basis"]) row.insertCell().append(...marked(figure[name]));
    return row;
  }));
}

plan?.addEventListener("toggle", showPlan);

form.addEventListener("input", (event) => {
  clearTimeout(planTimer);
  planTimer = setTimeout(showPlan, PLAN_AFTER_MS);
  event.target.dataset.touched = "yes";
  for (let section = event.target.closest("details"); section; section = section.parentElement.closest("details")) {
    const chip = section.querySelector(":scope > summary .changed");
    if (chip) chip.hidden = false;
  }
  withdrawAcceptance();
  clearTimeout(timer);
  timer = setTimeout(check, CHECK_AFTER_MS);
});

form.addEventListener("click", (event) => {
  const button = event.target.closest("button.add, button.remove");
  if (!button) return;
  withdrawAcceptance();
  if (button.className === "remove") button.closest(".row").remove();
  else {
    const rows = button.closest("[data-rows]");
    const next = Math.max(-1, ...[...rows.querySelectorAll(":scope > .row")].map((row) => Number(row.dataset.n ?? -1))) + 1;
    button.before(blankOf(rows, next));
    button.previousElementSibling.querySelector("input, select, textarea").focus();
  }
  timer = setTimeout(check, CHECK_AFTER_MS);
});

/** Returns a copy of the blank row with number n; the placeholders of lists inside it stay. */
function blankOf(rows, n) {
  const holder = document.createElement("template");
  const path = rows.dataset.rows;
  holder.innerHTML = rows.querySelector(":scope > template").innerHTML.replaceAll(`${path}.__n__`, `${path}.${n}`);
  const row = holder.content.firstElementChild;
  row.dataset.n = n;
  return row;
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  submit.disabled = true;
  try {
    const values = read();
    const reply = await post(`${form.getAttribute("action")}/check`, { values });
    showFaults(reply);
    const missing = onlyMissing(reply);
    if (Object.keys(reply.faults).length || (missing && missing !== accepted)) {
      accepted = missing;
      if (missing) {
        submit.textContent = `${nameSubmit()} anyway`;
        status.textContent += " If the run's worker is on another machine that has it, press again.";
      }
      const first = form.querySelector(".fault:not([hidden])");
      for (let section = first.closest("details"); section; section = section.parentElement.closest("details")) section.open = true;
      first.scrollIntoView({ block: "center" });
    } else {
      const timezone = document.getElementById("timezone").value;
      const then = document.getElementById("then")?.value ?? "";
      const { url } = await post(form.getAttribute("action"), { values, cron: cron.value, timezone, then });
      location.assign(url);
      return;
    }
  } catch (error) {
    status.textContent = error.message;
    status.className = "bad";
  }
  submit.disabled = false;
});

for (const rows of form.querySelectorAll("[data-rows]")) {
  [...rows.querySelectorAll(":scope > .row")].forEach((row, index) => { row.dataset.n = index; });
}
const wanted = form.querySelector(".usual > .rows-of:first-child");
if (wanted && !wanted.querySelector(":scope > .row")) wanted.querySelector("button.add").before(blankOf(wanted, 0));
