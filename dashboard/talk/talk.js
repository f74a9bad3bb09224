// The page: its controls, and where events of the session are shown.

import { deleteRecording, openSession, whyRefused } from "./session.js";
import { AnswerDelay, Oracles, Transcript } from "./shown.js";
import { FRAME, RATE_HZ, level, openSound } from "./sound.js";

const at = (id) => document.getElementById(id);
const seconds = (value) => `${value.toFixed(2)} s`;
const you = new Transcript(at("you"));
const it = new Transcript(at("it"));
const oracles = new Oracles(at("oracle"), at("age"));

let about = null; // what the server says of itself
let talk = null; // the conversation that goes on: {session, sound, delay}
let recorded = null; // id of the last conversation, where it was recorded
let nLost = { heard: 0, said: 0 }; // frames thrown away by the server
let nSkipped = 0; // of those heard, the ones that the session's clock stood still for

function tell(text, isWrong = false) {
  at("status").textContent = text;
  at("status").className = isWrong ? "wrong" : "";
}

function show(id, value) {
  at(id).textContent = value === null ? "–" : seconds(value);
}

function choose(id, names, chosen) {
  at(id).replaceChildren(...names.map((name) => new Option(name, name, name === chosen, name === chosen)));
}

/** Fills the list of models of a back-end and selects `chosen`; hides it if there is no choice. */
function offerModels(backEnd, chosen) {
  const others = about.models[backEnd] ?? [];
  at("model_label").hidden = others.length === 0;
  at("model").replaceChildren(new Option("its own", ""), ...others.map((name) => new Option(name)));
  at("model").value = chosen;
}

/** Clears transcripts, oracles, delays and counts. */
function clear() {
  you.clear();
  it.clear();
  oracles.clear();
  talk?.delay.clear();
  nLost = { heard: 0, said: 0 };
  nSkipped = 0;
  at("lost").textContent = "0, 0";
  ["answer_after", "whisper_after", "behind", "buffered"].forEach((id) => show(id, null));
}

/** Takes the token from the fragment of the URL, where dashboards put it, and removes it from the address bar. */
function takeToken() {
  if (!location.hash.startsWith("#token=")) return;
  at("token").value = decodeURIComponent(location.hash.slice("#token=".length));
  history.replaceState(null, "", location.pathname + location.search);
}

/** Sets up the controls by what the server offers (`v1/about`). */
async function begin() {
  const answer = await fetch("v1/about");
  about = await answer.json();
  choose("mode", about.modes, about.mode);
  choose("back_end", about.back_ends, about.back_ends[0]);
  offerModels(about.back_ends[0], "");
  at("token_label").hidden = !about.needs_token;
  at("consent_label").hidden = !about.records;
  at("record_notice").textContent = about.record_notice;
  at("keep_days").textContent = about.keep_days;
  at("notice").textContent = about.notice;
  at("notice").hidden = !about.notice;
  at("voice").hidden = about.voice !== "synthesised";
}

/** Opens the microphone and a session; an error is shown, and then all is closed. */
async function start() {
  at("start").disabled = true;
  at("delete").hidden = true;
  clear();
  let sound = null;
  try {
    tell("Opening the microphone …");
    const delay = new AnswerDelay(about.turn_end_silence_s);
    sound = await openSound(said, reported);
    tell("Connecting …");
    const wanted = { mode: at("mode").value, back_end: at("back_end").value, token: at("token").value };
    const model = at("model").value;
    const record = !at("consent_label").hidden && at("consent").checked;
    const session = await openSession(
      { ...wanted, consent: record ? about.record_consent : null },
      { sound: sound.play, soundEnded: sound.end, event: happened, failed: (text) => tell(text, true), closed: ended },
    );
    talk = { session, sound, delay, record };
    at("start").textContent = "Stop";
    at("reset").disabled = false;
    tell("Connected. Speak.");
    if (model) session.change({ model });
  } catch (error) {
    await sound?.close();
    tell(error.message === "refused" ? await whyRefused(at("mode").value, Boolean(at("token").value)) : error.message, true);
  }
  at("start").disabled = false;
}

/** Closes the sound and resets the controls after the end of a session. */
async function ended(reason) {
  if (!talk) return; // it never began, and `start` tells why
  const { session, sound, record } = talk;
  talk = null;
  recorded = record ? session.id : null;
  at("delete").hidden = !record;
  at("start").textContent = "Start";
  at("reset").disabled = true;
  at("level").value = 0;
  if (!at("status").classList.contains("wrong")) tell(reason ? `Ended: ${reason}` : "Ended.");
  await sound.close();
}

/** Shows the level of a frame of the microphone and sends it; without a session it is discarded. */
function said(samples) {
  at("level").value = level(samples);
  talk?.session.say(samples);
}

/** Shows the report of the loudspeaker's queue. */
function reported({ waiting, gaps, dropped }) {
  show("buffered", waiting / RATE_HZ);
  at("lost").textContent = `${gaps}, ${nLost.heard + nLost.said + Math.round(dropped / FRAME)}`;
}

/** Shows an event of the server, and how far the server is behind. */
function happened({ kind, time_s: timeS, data }) {
  if (!talk) return;
  const steppedS = timeS + (nSkipped * FRAME) / RATE_HZ;
  show("behind", Math.max(0, talk.session.sentS - steppedS));
  does[kind]?.(data, timeS);
}

function answered(delayS) {
  if (delayS !== null) show("answer_after", delayS);
}

const does = {
  started(data) {
    at("mode").value = data.mode;
    at("back_end").value = data.back_end;
    offerModels(data.back_end, data.model);
  },
  changed(data) {
    does.started(data);
    tell(`Now ${data.mode}, with ${[data.back_end, data.model].filter(Boolean).join(", ")}.`);
  },
  heard: (data) => you.heard(data.text, data.is_final),
  speech_stopped: (data, timeS) => answered(talk.delay.stopped(timeS)),
  said(data, timeS) {
    it.said(data.text, timeS);
    answered(talk.delay.said(timeS));
  },
  oracle_asked: (data) => oracles.asked(data),
  oracle(data) {
    const ageS = oracles.received(data);
    if (ageS !== null) show("whisper_after", ageS);
  },
  oracle_failed: (data) => oracles.failed(data),
  voice_failed: (data) => tell(`Text-to-speech failed: “${data.text}”. ${data.reason}`),
  sentence_left_out: (data) => tell(`A sentence of the answer was skipped: ${data.reason}`),
  dropped(data) {
    nLost[data.direction] += data.n_frames;
    if (data.direction === "heard" && !data.was_silence) nSkipped += data.n_frames;
  },
  ended: (data) => tell(`Ended: ${data.reason}`, true),
};

at("controls").addEventListener("submit", (event) => {
  event.preventDefault();
  if (talk) talk.session.close();
  else start();
});
at("reset").addEventListener("click", () => {
  clear();
  talk.sound.clear();
  talk.session.reset();
});
at("mode").addEventListener("change", () => talk?.session.change({ mode: at("mode").value }));
at("back_end").addEventListener("change", () => {
  offerModels(at("back_end").value, "");
  talk?.session.change({ back_end: at("back_end").value });
});
at("model").addEventListener("change", () => talk?.session.change({ model: at("model").value }));
at("delete").addEventListener("click", async () => {
  try {
    await deleteRecording(recorded, at("token").value);
    at("delete").hidden = true;
    tell("Deleted.");
  } catch (error) {
    tell(error.message, true);
  }
});
takeToken();
setInterval(() => oracles.tick(), 100);
begin().catch(() => tell("The server does not say what it offers; is it of this version?", true));
