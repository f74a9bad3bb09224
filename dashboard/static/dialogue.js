// One dialogue: sound, waveforms, words and oracle events on one clock; keys; flags.
import { setUpFlags } from "./flags.js";
import { Player } from "./player.js";
import { Spectrograms } from "./spectrograms.js";
import { Timeline } from "./timeline.js";
import { Tokens } from "./tokens.js";
import WaveSurfer from "./vendor/wavesurfer.esm.js";

const main = document.getElementById("main");
const byId = (id) => document.getElementById(id);
const player = new Player(byId("audio"));
const timeline = new Timeline(byId("timeline"), Number(main.dataset.duration));
const flags = setUpFlags(main.dataset.flag);

function fail(message) {
  byId("fault").textContent = message;
  byId("fault").hidden = false;
}

// Waveforms are drawn from peaks of the server; the browser does not decode the audio for them.
const waves = {};
async function drawWaves() {
  const answer = await fetch(main.dataset.peaks);
  if (!answer.ok) throw new Error((await answer.json()).error);
  const [a, b] = await answer.json();
  const loudest = Math.max(...a, ...b, 0.01);
  for (const [speaker, peaks] of Object.entries({ A: a, B: b })) {
    waves[speaker] = WaveSurfer.create({
      container: byId(`wave-${speaker}`),
      media: byId("audio"),
      peaks: [peaks],
      duration: timeline.durationS,
      height: 56,
      cursorWidth: 0,
      maxPeak: loudest,
      normalize: true,
      hideScrollbar: true,
      cspNonce: main.dataset.nonce,
      ...colours(speaker),
    });
  }
}
function colours(speaker) {
  const style = getComputedStyle(byId(`wave-${speaker}`));
  return { waveColor: style.color, progressColor: style.outlineColor };
}
addEventListener("themechange", () => {
  for (const [speaker, wave] of Object.entries(waves)) wave.setOptions(colours(speaker));
});
drawWaves().catch((error) => fail(`The waveforms cannot be drawn: ${error.message}`));

// What is shown at the current time of the audio.
const events = [...document.querySelectorAll("tr[data-at]")];
/** Shows the time, and the words, frame and newest oracle at the current time of the audio. */
function showMoment() {
  const timeS = player.timeS;
  byId("clock").textContent = timeS.toFixed(2);
  timeline.show(timeS, player.isPlaying);
  tokens.show(timeS);
  const now = events.findLast((row) => Number(row.dataset.at) <= timeS + 1e-3);
  for (const row of events) row.classList.toggle("now", row === now);
  byId("now-level").textContent = now ? `level ${now.dataset.level}` : "no oracle yet";
  byId("now-level").className = `chip${now ? ` level-${now.dataset.level}` : ""}`;
  byId("now-age").textContent = now ? `${(timeS - Number(now.dataset.at)).toFixed(1)} s old` : "";
  byId("now-text").textContent = now ? now.querySelector(".said").firstChild.textContent : "";
}
player.addEventListener("time", showMoment);
player.addEventListener("state", () => {
  byId("play").textContent = player.isPlaying ? "❚❚" : "▶";
  byId("play").setAttribute("aria-label", player.isPlaying ? "Pause" : "Play");
  byId("loop").setAttribute("aria-pressed", player.isLooping);
  for (const button of document.querySelectorAll("[data-solo]")) button.setAttribute("aria-pressed", player.solo === button.dataset.solo);
  for (const button of document.querySelectorAll("[data-mute]")) button.setAttribute("aria-pressed", player.muted.has(button.dataset.mute));
});
player.addEventListener("fault", (event) => fail(`The audio cannot be played: ${event.detail}`));

const tokenParts = { button: "tokens", delays: "delays", folder: "token-folder", tracks: "token-tracks", band: "frame-band", now: "frame-now", table: "token-table" };
const tokens = new Tokens(
  { ...Object.fromEntries(Object.entries(tokenParts).map(([name, id]) => [name, byId(id)])), address: main.dataset.tokens, durationS: timeline.durationS },
  fail,
);
tokens.addEventListener("seek", (event) => player.seek(event.detail));

const spectrograms = new Spectrograms(byId("spectrogram"), main.dataset, fail);

// Controls.
byId("play").addEventListener("click", () => player.toggle());
byId("loop").addEventListener("click", () => player.toggleLoop());
byId("speed").addEventListener("change", (event) => { player.speed = Number(event.target.value); });
byId("zoom").addEventListener("input", (event) => timeline.zoom(Number(event.target.value)));
byId("oracles")?.addEventListener("change", (event) => {
  const query = new URLSearchParams(location.search);
  query.set("oracles", event.target.value);
  location.search = query;
});
for (const button of document.querySelectorAll("[data-solo]")) button.addEventListener("click", () => player.toggleSolo(button.dataset.solo));
for (const button of document.querySelectorAll("[data-mute]")) button.addEventListener("click", () => player.toggleMute(button.dataset.mute));
for (const close of document.querySelectorAll("dialog .close")) close.addEventListener("click", () => close.closest("dialog").close());
byId("help").addEventListener("click", () => byId("keys").showModal());
document.addEventListener("click", (event) => {
  const word = event.target.closest(".word");
  const moment = event.target.closest(".whisper, .link, .span");
  if (word) player.playStretch(Number(word.dataset.start), Number(word.dataset.end));
  else if (moment) player.seek(Number(moment.dataset.start));
});
timeline.addEventListener("seek", (event) => player.seek(event.detail));
timeline.addEventListener("select", (event) => player.loopStretch(event.detail));

const keys = {
  " ": () => player.toggle(),
  a: () => player.toggleSolo("A"),
  b: () => player.toggleSolo("B"),
  l: () => player.toggleLoop(),
  s: () => spectrograms.toggle(),
  t: () => tokens.toggle(),
  d: () => tokens.toggleDelays(),
  ",": () => player.seek(tokens.step(player.timeS, -1)),
  ".": () => player.seek(tokens.step(player.timeS, 1)),
  f: () => flags.open(),
  j: () => byId("after")?.click(),
  k: () => byId("before")?.click(),
  "+": () => stepZoom(1.25),
  "=": () => stepZoom(1.25),
  "-": () => stepZoom(0.8),
  "?": () => byId("keys").showModal(),
  arrowleft: (event) => player.seek(event.shiftKey ? timeline.wordBefore(player.timeS) : player.timeS - 1),
  arrowright: (event) => player.seek(event.shiftKey ? timeline.wordAfter(player.timeS) : player.timeS + 1),
};
function stepZoom(factor) {
  byId("zoom").value = byId("zoom").value * factor;
  timeline.zoom(Number(byId("zoom").value));
}
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input:not([type=range]), textarea, select");
  const isModified = event.ctrlKey || event.metaKey || event.altKey;
  const isPress = event.key === " " && event.target.matches("button, summary, a");
  if (isTyping || isModified || isPress || document.querySelector("dialog[open]")) return;
  const act = keys[event.key.toLowerCase()];
  if (!act) return;
  event.preventDefault();
  act(event);
});
byId("zoom").value = timeline.fit();
showMoment();
