// Requests that change something have the access token: from the URL that `kame up` prints, or entered by the user.

const KEY = "kame-token";

if (location.hash.startsWith("#token=")) {
  sessionStorage.setItem(KEY, decodeURIComponent(location.hash.slice("#token=".length)));
  history.replaceState(null, "", location.pathname + location.search);
}

/** Asks the user for the token in a dialog, and keeps it for this tab; resolves to whether one was entered. */
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

/**
 * Posts JSON and resolves to the JSON of the answer; asks for the token if there is none or it is wrong.
 *
 * Throws an error, whose message says what to do, if the server refuses or no token is entered.
 */
export async function post(address, body) {
  if (!sessionStorage.getItem(KEY) && !(await ask("To change something, enter the token of this dashboard."))) throw new Error("Nothing was changed, because no token was given.");
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${sessionStorage.getItem(KEY)}` };
  const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
  if (answer.status === 401) {
    sessionStorage.removeItem(KEY);
    if (await ask("That token was wrong. Enter the token of this dashboard.")) return post(address, body);
  }
  const reply = await answer.json();
  if (!answer.ok) throw new Error(`${reply.error} ${reply.remedy ?? ""}`.trim());
  return reply;
}

/** Returns whether a token is kept for this tab, right or wrong. */
export function hasToken() {
  return Boolean(sessionStorage.getItem(KEY));
}
