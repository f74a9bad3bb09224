// Flagging a dialogue: the dialog for the reason and, once per tab, the token.

const TOKEN = "kame-token";

/** Sets up the flag button and its dialog, for the URL `address`; `open()` shows the dialog if flags can be set. */
export function setUpFlags(address) {
  const byId = (id) => document.getElementById(id);
  const dialog = byId("flagging");
  const button = byId("flag");

  function open() {
    if (button.disabled) return;
    byId("flag-fault").hidden = true;
    byId("token-label").hidden = Boolean(sessionStorage.getItem(TOKEN));
    dialog.showModal();
    byId("reason").focus();
  }

  /** Sets or removes the flag on the server and shows the result; an error is shown in the dialog, which stays open. */
  async function send(isFlagged) {
    if (byId("token").value) sessionStorage.setItem(TOKEN, byId("token").value);
    const headers = { "Content-Type": "application/json", Authorization: `Bearer ${sessionStorage.getItem(TOKEN) ?? ""}` };
    const body = JSON.stringify({ is_flagged: isFlagged, reason: byId("reason").value });
    try {
      const answer = await fetch(address, { method: "POST", headers, body });
      const reply = await answer.json();
      if (answer.status === 401) {
        sessionStorage.removeItem(TOKEN);
        byId("token-label").hidden = false;
      }
      if (!answer.ok) throw new Error(`${reply.error} ${reply.remedy}`.trim());
      button.setAttribute("aria-pressed", reply.flag !== null);
      byId("flag-text").textContent = reply.flag === null ? "Flag" : `Flagged: ${reply.flag}`;
      byId("flag-clear").hidden = reply.flag === null;
      dialog.close();
    } catch (error) {
      byId("flag-fault").textContent = error.message;
      byId("flag-fault").hidden = false;
    }
  }

  button.addEventListener("click", open);
  byId("flag-clear").addEventListener("click", () => send(false));
  dialog.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    send(true);
  });
  return { open };
}
