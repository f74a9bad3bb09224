// What changes something is sent with the token: it comes in the address that `kame up` prints, or is asked for once.

const KEY = "kame-token";

if (location.hash.startsWith("#token=")) {
  sessionStorage.setItem(KEY, decodeURIComponent(location.hash.slice("#token=".length)));
  history.replaceState(null, "", location.pathname + location.search);
}

/** Asks for the token; gives whether one was typed. */
function ask(why) {
  const dialog = document.createElement("dialog");
  const form = document.createElement("form");
  const label = document.createElement("label");
  const input = Object.assign(document.createElement("input"), { type: "password", required: true, autocomplete: "off" });
  const row = Object.assign(document.createElement("div"), { className: "above" });
  const cancel = Object.assign(document.createElement("button"), { type: "button", textContent: "Cancel" });
  form.method = "dialog";
  label.append(`${why} It is in the variable of --token-env, or behind #token= in what kame up printed.`, input);
  row.append(Object.assign(document.createElement("button"), { className: "primary", textContent: "Continue" }), cancel);
  form.append(label, row);
  dialog.append(form);
  document.body.append(dialog);
  dialog.showModal();
  cancel.addEventListener("click", () => dialog.close());
  return new Promise((resolve) => {
    form.addEventListener("submit", () => sessionStorage.setItem(KEY, input.value));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(Boolean(input.value));
    });
  });
}

/** Sends a change as JSON and gives what the server answers; an error holds what happened and what to do. */
export async function post(address, body) {
  if (!sessionStorage.getItem(KEY) && !(await ask("To change something, enter the token of this dashboard."))) throw new Error("Nothing was changed, because no token was given.");
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${sessionStorage.getItem(KEY)}` };
  const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
  if (answer.status === 401) {
    sessionStorage.removeItem(KEY);
    if (await ask("That token was wrong. Enter the token of this dashboard.")) return post(address, body);
  }
  const told = await answer.json();
  if (!answer.ok) throw new Error(`${told.error} ${told.remedy ?? ""}`.trim());
  return told;
}

/** Whether a token was given in this tab. */
export function hasToken() {
  return Boolean(sessionStorage.getItem(KEY));
}
