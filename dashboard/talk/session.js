// One session over /v1/realtime: OpenAI's realtime protocol with additional events of the server.

import { RATE_HZ, fromBase64, toBase64 } from "./sound.js";

/**
 * Opens a session; resolves to it when the server has accepted it, and rejects with the message "refused" if not.
 *
 * `on.closed(reason)` is called when the connection ends, also after a refusal.
 *
 * @param {{mode: string, back_end: string, token: string, consent: ?string}} wanted  `consent`: to be recorded
 * @param {{sound, soundEnded, event, failed, closed}} on what is called with sound, events and errors
 */
export function openSession(wanted, on) {
  const query = new URLSearchParams({ mode: wanted.mode, back_end: wanted.back_end });
  if (wanted.consent) query.set("record", wanted.consent);
  const url = new URL(`v1/realtime?${query}`, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  // A page can set no header: the token goes where OpenAI's own browser clients put it.
  const protocols = wanted.token ? ["realtime", `openai-insecure-api-key.${wanted.token}`] : ["realtime"];
  const socket = new WebSocket(url, protocols);
  const send = (message) => {
    if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  };
  const session = {
    id: null,
    nSent: 0, // samples
    get sentS() {
      return this.nSent / RATE_HZ;
    },
    say(samples) {
      this.nSent += samples.length;
      send({ type: "input_audio_buffer.append", audio: toBase64(samples) });
    },
    change: (changes) => send({ type: "session.update", kame: changes }),
    reset() {
      this.nSent = 0; // the session's clock restarts
      send({ type: "session.update", kame: { reset: true } });
    },
    close: () => socket.close(),
  };
  const does = {
    "session.created": (message) => {
      session.id = message.session.id;
    },
    "response.output_audio.delta": (message) => on.sound(fromBase64(message.delta)),
    "response.output_audio.done": () => on.soundEnded(),
    "kame.event": (message) => on.event(message.event),
    error: ({ error }) => {
      if (error.code !== "input_audio_dropped") on.failed(error.message); // that is counted by its event
    },
  };
  return new Promise((resolve, reject) => {
    socket.onopen = () => {
      send({ type: "session.update", kame: { events: true } });
      resolve(session);
    };
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      does[message.type]?.(message);
    };
    socket.onclose = ({ reason }) => {
      reject(new Error("refused"));
      on.closed(reason);
    };
  });
}

/** Deletes the recording of a session on the server; throws the server's message if it cannot. */
export async function deleteRecording(id, token) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(`v1/recordings/${id}`, { method: "DELETE", headers });
  if (!answer.ok) throw new Error((await answer.json()).error.message);
}

/** Returns a text on why the server refused a session: browsers do not say, so the server is asked. It never throws. */
export async function whyRefused(mode, hasToken) {
  try {
    const { refusal } = await (await fetch(`v1/about?${new URLSearchParams({ mode })}`)).json();
    if (refusal) return refusal.message;
    return hasToken ? "The server did not let you in. Is the token right?" : "The server did not let you in; try later.";
  } catch {
    return "The server does not answer.";
  }
}
