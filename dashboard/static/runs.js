// Runs as they are: what changes of the page is fetched while a run is at work; buttons that change something.

import { post } from "/static/token.js";

const EVERY_MS = 2000;

let newest = document.getElementById("now").outerHTML;

/** Puts the newest state of the page's part `now` in its place while a run is at work; then, once more, at its end. */
async function refresh() {
  if (document.getElementById("now").dataset.alive !== "yes") return;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = page.getElementById("now");
    if (!now) throw new Error(page.querySelector("main")?.innerText.trim() ?? "The server does not answer.");
    if (now.outerHTML !== newest) document.getElementById("now").replaceWith(now); // else focus would be lost for nothing
    newest = now.outerHTML;
    show("");
    if (now.dataset.alive !== "yes") document.getElementById("cancel")?.remove();
  } catch (error) {
    show(error instanceof TypeError ? "The dashboard does not answer. The page keeps trying." : error.message);
  }
  setTimeout(refresh, EVERY_MS);
}

function show(text) {
  const fault = document.getElementById("fault");
  fault.textContent = text;
  fault.hidden = !text;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-post]");
  if (!button || (button.dataset.sure && !confirm(button.dataset.sure))) return;
  button.disabled = true;
  try {
    const told = await post(button.dataset.post, JSON.parse(button.dataset.body));
    location.assign(button.dataset.then ?? told.url);
  } catch (error) {
    show(error.message);
    button.disabled = false;
  }
});
setTimeout(refresh, EVERY_MS);
