// Pages of runs: fetches the page again while a run is active, and handles the buttons that change something.

import { post } from "/static/token.js";
import { update } from "/static/update.js";

const EVERY_MS = 2000;

let newest = document.getElementById("now").outerHTML;

/** Updates the part `now` of the page every 2 s while a run is active, and once after its end. */
async function refresh() {
  if (document.getElementById("now").dataset.alive !== "yes") return;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = page.getElementById("now");
    if (!now) throw new Error(page.querySelector("main")?.innerText.trim() ?? "The server does not answer.");
    const { alive } = now.dataset;
    const html = now.outerHTML;
    if (html !== newest) update(document.getElementById("now"), now);
    newest = html;
    show("");
    if (alive !== "yes") document.getElementById("cancel")?.remove();
  } catch (error) {
    show(error instanceof TypeError ? "The dashboard does not answer. The page keeps trying." : error.message);
  }
  setTimeout(refresh, EVERY_MS);
}

/** Shows an error; an empty text hides it. */
function show(text) {
  const fault = document.getElementById("fault");
  fault.textContent = text;
  fault.hidden = !text;
}

/** Disables a button during its request, so that `update` leaves it alone, or enables it again. */
function setBusy(button, isBusy) {
  button.disabled = isBusy;
  button.ariaBusy = isBusy ? "true" : null;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-post]");
  if (!button || (button.dataset.sure && !confirm(button.dataset.sure))) return;
  setBusy(button, true);
  try {
    const reply = await post(button.dataset.post, JSON.parse(button.dataset.body));
    addEventListener("pagehide", () => setBusy(button, false), { once: true }); // who comes back may press again
    location.assign(button.dataset.then ?? reply.url);
  } catch (error) {
    show(error.message);
    setBusy(button, false);
  }
});
setTimeout(refresh, EVERY_MS);
