// What is shown of a session: two transcripts, the oracles, and delays.

const PAUSE_S = 1; // as in kame_model/serve/session/conversation.py: from which on words are another turn, and a new paragraph
const N_ORACLES = 20; // older ones leave the page
const N_ASKED = 50; // of older ones nothing comes any more: a newer one's first words end them

const seconds = (value) => `${value.toFixed(2)} s`;

/** The transcript of one speaker. */
export class Transcript {
  constructor(element) {
    this.element = element;
    this.clear();
  }

  clear() {
    this.element.replaceChildren();
    this.unfinished = null;
    this.lastS = -Infinity;
  }

  /** Shows the whole recognised text of a turn so far; with `isFinal`, the next text begins a new paragraph. */
  heard(text, isFinal) {
    this.unfinished ??= this.paragraph();
    this.unfinished.textContent = text;
    this.unfinished.className = isFinal ? "" : "unfinished";
    if (isFinal && !text.trim()) this.unfinished.remove();
    if (isFinal) this.unfinished = null;
    this.scroll();
  }

  /** Appends a piece of text, in a new paragraph after a pause of 1 s. */
  said(text, timeS) {
    if (timeS - this.lastS >= PAUSE_S) this.paragraph();
    this.lastS = timeS;
    this.element.lastChild.textContent += text;
    this.scroll();
  }

  paragraph() {
    return this.element.appendChild(document.createElement("p"));
  }

  scroll() {
    this.element.scrollTop = this.element.scrollHeight;
  }
}

/** The list of oracles, the newest first, and the age of the newest. */
export class Oracles {
  constructor(list, age) {
    this.list = list;
    this.age = age;
    this.clear();
  }

  clear() {
    this.list.replaceChildren();
    this.found = new Map();
    this.age.textContent = "–";
    this.askedAt = null;
  }

  /** Remembers an oracle that was requested; it is shown when its first words come, or when it fails. */
  asked({ oracle, back_end: backEnd }) {
    const item = document.createElement("li");
    const from = item.appendChild(document.createElement("span"));
    from.className = "from";
    from.textContent = `${backEnd}, asked`;
    const text = item.appendChild(document.createElement("span"));
    this.found.set(oracle, { item, from, text, backEnd, askedAt: performance.now() });
    if (this.found.size > N_ASKED) this.found.delete(this.found.keys().next().value);
  }

  /** Appends words to an oracle. Returns its age in seconds at its first words; null later, or if it is unknown. */
  received({ oracle, text, age_s: ageS }) {
    const one = this.found.get(oracle);
    if (!one) return null; // asked before this page listened
    const isFirst = !one.item.isConnected;
    if (isFirst) {
      one.from.textContent = `${one.backEnd}, after ${seconds(ageS)}`;
      this.show(one);
      this.askedAt = one.askedAt;
    }
    one.text.textContent += isFirst ? text : ` ${text}`; // pieces are whole words
    return isFirst ? ageS : null;
  }

  /** Shows that an oracle has failed, also if its request is unknown. */
  failed({ oracle, back_end: backEnd, reason }) {
    const one = this.found.get(oracle) ?? this.asked({ oracle, back_end: backEnd }) ?? this.found.get(oracle);
    one.from.textContent = `${backEnd} failed: ${reason}`;
    one.from.classList.add("failed");
    this.show(one);
  }

  /** Puts an oracle on top if it is not in the list yet, and removes the oldest above `N_ORACLES`. */
  show(one) {
    if (!one.item.isConnected) this.list.prepend(one.item);
    while (this.list.children.length > N_ORACLES) this.list.lastChild.remove();
  }

  /** Updates the shown age; to be called repeatedly. */
  tick() {
    if (this.askedAt !== null) this.age.textContent = `${seconds((performance.now() - this.askedAt) / 1000)} old`;
  }
}

/** Measures the delay from the end of the user's turn to the first word of the answer, whichever is reported first. */
export class AnswerDelay {
  constructor(turnEndSilenceS) {
    this.silenceS = turnEndSilenceS;
    this.clear();
  }

  clear() {
    this.saidS = []; // of the last seconds, on the session's clock
    this.endS = null;
  }

  /** Records that the end of the user's turn was detected at `timeS`. Returns as `find`. */
  stopped(timeS) {
    this.endS = timeS - this.silenceS;
    return this.find();
  }

  /** Records that the model said something at `timeS`. Returns as `find`. */
  said(timeS) {
    this.saidS = [...this.saidS.filter((each) => each > timeS - 30), timeS];
    return this.find();
  }

  /** Returns the delay in seconds, once for each turn of the user; null if no answer has followed its end yet. */
  find() {
    const firstS = this.endS === null ? undefined : this.saidS.find((each) => each >= this.endS);
    if (firstS === undefined) return null;
    const delayS = firstS - this.endS;
    this.endS = null;
    return delayS;
  }
}
