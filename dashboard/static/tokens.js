// The token row of a dialogue: frames under the sound that they stand for, and one frame's values in words and numbers.

const KEPT = "kame-tokens";
const TEXT_ROWS = 2;
const ORACLE_ROWS = 4; // a token a frame: labels need more room
const NAMES = { A: "assistant", B: "user" };

/** Shows the token row of a dialogue; dispatches `seek` (seconds) at a click on a frame. */
export class Tokens extends EventTarget {
  #parts;
  #fail;
  #row = null;
  #shown = { frame: -1, isPointed: false };
  #atS = 0;
  #pieces = [];

  /** @param parts its elements by name, with `address`, the URL of the rows, and `durationS`; `fail` shows an error. */
  constructor(parts, fail) {
    super();
    this.#parts = parts;
    this.#fail = fail;
    if (!parts.folder) return;
    parts.button.addEventListener("click", () => this.toggle());
    parts.delays.addEventListener("click", () => this.toggleDelays());
    parts.folder.addEventListener("change", () => this.#load());
    parts.table.addEventListener("toggle", () => this.#fillTable());
    parts.tracks.addEventListener("pointermove", (event) => this.#point(event));
    parts.tracks.addEventListener("pointerleave", () => this.show(this.#atS));
    parts.tracks.addEventListener("click", (event) => {
      const frame = this.#frameAt(event);
      if (frame !== null) this.dispatchEvent(new CustomEvent("seek", { detail: frame * this.#row.frame_s }));
    });
    addEventListener("themechange", () => this.#paint());
    if (sessionStorage.getItem(KEPT) !== "off") this.toggle();
  }

  get #isOn() {
    return this.#parts.button.getAttribute("aria-pressed") === "true";
  }

  get #isDelayed() {
    return this.#parts.delays.getAttribute("aria-pressed") === "true";
  }

  toggle() {
    if (!this.#parts.folder) return;
    const isOn = !this.#isOn;
    this.#parts.button.setAttribute("aria-pressed", isOn);
    sessionStorage.setItem(KEPT, isOn ? "on" : "off");
    if (isOn && !this.#row) this.#load();
    else this.#unfold();
  }

  toggleDelays() {
    if (!this.#row) return;
    this.#parts.delays.setAttribute("aria-pressed", !this.#isDelayed);
    this.#paint();
    this.#again();
  }

  /** Returns the start in seconds of the frame that is n frames from the one at a time; the same time without a row. */
  step(timeS, n) {
    return this.#row ? Math.max(0, this.#frameOf(timeS) + n) * this.#row.frame_s : timeS;
  }

  /** Fetches and draws the row of the chosen folder; if that fails, shows the error and no row. */
  async #load() {
    const chosen = this.#parts.folder.selectedOptions[0];
    try {
      const answer = await fetch(`${this.#parts.address}${encodeURIComponent(chosen.value)}?of=${chosen.dataset.of}`);
      const reply = await answer.json();
      if (!answer.ok) throw new Error(`${reply.error} ${reply.remedy}`);
      this.#row = reply;
    } catch (error) {
      this.#row = null;
      this.#fail(`The token row cannot be shown: ${error.message}`);
    }
    this.#lay();
    this.#unfold();
  }

  /** Shows or hides the tracks and their controls, by whether they are on and there is a row. */
  #unfold() {
    const isShown = this.#isOn && this.#row !== null;
    for (const name of ["tracks", "band", "now", "table"]) this.#parts[name].hidden = !isShown;
    this.#parts.folder.closest("label").hidden = !isShown;
    this.#parts.delays.hidden = !isShown;
  }

  /** Returns the frame at a time, within the row; 1 ms is added, as players may seek to slightly before a frame. */
  #frameOf(timeS) {
    return Math.max(0, Math.min(this.#row.n_frames - 1, Math.floor((timeS + 1e-3) / this.#row.frame_s)));
  }

  /** Returns the frame under the pointer; null if there is none. */
  #frameAt(event) {
    const stage = event.target.closest(".stage");
    if (!stage || !this.#row) return null;
    const { left, width } = stage.getBoundingClientRect();
    const timeS = ((event.clientX - left) / width) * this.#parts.durationS;
    const frame = Math.floor(timeS / this.#row.frame_s);
    return frame >= 0 && frame < this.#row.n_frames ? frame : null;
  }

  #point(event) {
    const frame = this.#frameAt(event);
    if (frame !== null) this.#tell(frame, true);
  }

  show(timeS) {
    this.#atS = timeS;
    if (this.#row) this.#tell(this.#frameOf(timeS), false);
  }

  /** Shows the frame at the current time and the table again, after the row or the delays have changed. */
  #again() {
    this.#shown.frame = -1;
    this.#parts.table.querySelector("tbody")?.closest("table").remove();
    this.#fillTable();
    this.show(this.#atS);
  }

  /** Returns the ids of a frame: text, each codebook (undefined before the start of a delayed one), and oracle. */
  #at(speaker, frame) {
    const { text, codes, delays, oracle } = this.#row.speakers[speaker];
    const late = this.#isDelayed ? delays : delays.map(() => 0);
    return { text: text[frame], codes: codes.map((each, q) => each[frame - late[q]]), oracle: oracle[frame] };
  }

  #name(id) {
    if (id === this.#row.padding_id) return "padding";
    if (id === this.#row.end_of_padding_id) return "end of padding";
    if (id === this.#row.start_id) return "start";
    return this.#row.pieces[id]?.replace(/^ /, "▁") || `id ${id}`;
  }

  #speakers() {
    return ["B", "A"].map((speaker) => [speaker, this.#row.speakers[speaker]]);
  }

  /** Replaces the tracks by those of the current row; without one, removes them. */
  #lay() {
    const { tracks, band } = this.#parts;
    tracks.replaceChildren();
    this.#pieces = [];
    if (!this.#row) return;
    band.style.setProperty("--w", this.#row.frame_s);
    for (const [speaker, { text, codes, oracle, events }] of this.#speakers()) {
      this.#addStream(`${speaker} text`, `Text tokens of the ${NAMES[speaker]}`, speaker, "text", text, TEXT_ROWS);
      const stage = this.#addTrack(`${speaker} codes`, `of-${speaker} codes`);
      stage.append(this.#canvas(`Codes of the ${NAMES[speaker]}, ${codes.length} codebooks`, speaker, "codes", codes.length));
      if (events.length) this.#addStream(speaker === "A" ? "oracle" : "oracle of B", `Oracle stream for the ${NAMES[speaker]}`, speaker, "oracle", oracle, ORACLE_ROWS);
    }
    this.#paint();
    this.#again();
  }

  #addTrack(name, kind) {
    const track = Object.assign(document.createElement("div"), { className: `track token ${kind}` });
    const label = Object.assign(document.createElement("div"), { className: "name quiet", textContent: name });
    const stage = Object.assign(document.createElement("div"), { className: "stage" });
    track.append(label, stage);
    this.#parts.tracks.append(track);
    return stage;
  }

  #canvas(label, speaker, stream, height) {
    const canvas = Object.assign(document.createElement("canvas"), { width: this.#row.n_frames, height });
    Object.assign(canvas.dataset, { speaker, stream });
    canvas.style.setProperty("--w", this.#row.n_frames * this.#row.frame_s);
    canvas.style.setProperty("--n", height);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${label}, ${this.#row.n_frames} frames of 80 ms; the table of all frames has their values`);
    return canvas;
  }

  /** Adds a track: pieces as labels in `nRows` rows, each up to the next one in its row, above a strip of frames. */
  #addStream(name, label, speaker, stream, ids, nRows) {
    const stage = this.#addTrack(name, `of-${speaker} ${stream}`);
    const labels = Object.assign(document.createElement("div"), { className: "labels", ariaHidden: "true" });
    labels.style.setProperty("--rows", nRows);
    const said = ids.map((id, frame) => [frame, id]).filter(([, id]) => id !== this.#row.padding_id && id !== this.#row.end_of_padding_id);
    said.forEach(([frame, id], index) => {
      const piece = Object.assign(document.createElement("span"), { className: "piece", textContent: id === this.#row.start_id ? "●" : this.#name(id).replace(/^▁/, "") });
      const next = said[index + nRows]?.[0] ?? this.#row.n_frames;
      piece.style.setProperty("--s", frame * this.#row.frame_s);
      piece.style.setProperty("--room", (next - frame) * this.#row.frame_s);
      piece.style.setProperty("--row", index % nRows);
      piece.title = `frame ${frame}, id ${id}: ${this.#name(id)}`;
      labels.append(piece);
      this.#pieces.push([frame, piece]);
    });
    stage.append(labels, this.#canvas(label, speaker, stream, 1));
  }

  /** Draws the frames of all tracks: codes by their value, text of the answer stronger than other text. */
  #paint() {
    for (const canvas of this.#parts.tracks.querySelectorAll("canvas")) {
      const { speaker, stream } = canvas.dataset;
      const picture = canvas.getContext("2d");
      picture.clearRect(0, 0, canvas.width, canvas.height);
      const dot = (frame, row, colour, strength = 1) => {
        picture.fillStyle = colour;
        picture.globalAlpha = strength;
        picture.fillRect(frame, row, 1, 1);
      };
      const colour = getComputedStyle(canvas).color;
      const { answer_frames: answers } = this.#row.speakers[speaker];
      for (let frame = 0; frame < this.#row.n_frames; frame += 1) {
        const { [stream]: found } = this.#at(speaker, frame);
        if (stream === "codes") {
          found.forEach((code, q) => {
            if (code !== undefined) dot(frame, q, colour, 0.1 + (0.85 * code) / this.#row.sizes[q]);
          });
        } else if (found === this.#row.start_id) dot(frame, 0, colour);
        else if (found === this.#row.end_of_padding_id) dot(frame, 0, colour, 0.15);
        else if (found !== this.#row.padding_id) dot(frame, 0, colour, stream === "text" && answers.includes(frame) ? 1 : 0.5);
      }
    }
  }

  /** Shows the values of a frame: the one at the cursor, or the one under the pointer. */
  #tell(frame, isPointed) {
    if (frame === this.#shown.frame && isPointed === this.#shown.isPointed) return;
    this.#shown = { frame, isPointed };
    const { frame_s: frameS } = this.#row;
    if (!isPointed) {
      this.#parts.band.style.setProperty("--s", frame * frameS);
      for (const [at, piece] of this.#pieces) piece.classList.toggle("now", at === frame);
    }
    this.#parts.now.querySelector("#frame-number").textContent = `frame ${frame}`;
    this.#parts.now.querySelector("#frame-times").textContent = `${(frame * frameS).toFixed(2)} to ${((frame + 1) * frameS).toFixed(2)} s${isPointed ? ", under the pointer" : ""}`;
    const rows = this.#speakers().map(([speaker]) => [NAMES[speaker], ...this.#values(speaker, frame)]);
    this.#parts.now.querySelector("#frame-values").replaceChildren(makeTable(["", ...this.#head()], rows));
  }

  #head() {
    const { delays, codes } = this.#row.speakers.A;
    return ["text", ...codes.map((_, q) => (this.#isDelayed && delays[q] ? `q${q} −${delays[q]}` : `q${q}`)), "oracle"];
  }

  #values(speaker, frame) {
    const { text, codes, oracle } = this.#at(speaker, frame);
    const label = (id) => (id === this.#row.padding_id ? "·" : this.#name(id));
    return [label(text), ...codes.map((code) => code ?? "–"), this.#row.speakers[speaker].events.length ? label(oracle) : ""];
  }

  /** Fills the table of all frames when it is opened for the first time. */
  #fillTable() {
    const { table } = this.#parts;
    if (!table.open || !this.#row || table.querySelector("table")) return;
    const head = ["frame", "s", ...["B", "A"].flatMap((speaker) => this.#head().map((name) => `${speaker} ${name}`))];
    const rows = Array.from({ length: this.#row.n_frames }, (_, frame) => [
      frame, (frame * this.#row.frame_s).toFixed(2), ...this.#values("B", frame), ...this.#values("A", frame),
    ]);
    table.querySelector(".scroll").append(makeTable(head, rows));
  }
}

function makeTable(head, rows) {
  const table = Object.assign(document.createElement("table"), { className: "frames" });
  const line = table.createTHead().insertRow();
  for (const name of head) line.append(Object.assign(document.createElement(name ? "th" : "td"), { textContent: name, ...(name && { scope: "col" }) }));
  const body = table.createTBody();
  for (const [first, ...values] of rows) {
    const row = body.insertRow();
    row.append(Object.assign(document.createElement("th"), { textContent: first, scope: "row" }));
    for (const value of values) row.insertCell().textContent = value;
  }
  return table;
}
