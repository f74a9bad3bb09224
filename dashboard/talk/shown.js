// What is shown of a conversation: two transcripts, the oracles, and how long things take.

const PAUSE_S = 1; // as in kame_model/serve/session/conversation.py: from which on words are another turn, and a new paragraph
const N_ORACLES = 20; // older ones leave the page
const N_ASKED = 50; // of older ones nothing comes any more: a newer one's first words end them

const seconds = (value) => `${value.toFixed(2)} s`;

/** One side's words. */
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

  /** What is heard of a turn so far, all of it. */
  heard(text, isFinal) {
    this.unfinished ??= this.paragraph();
    this.unfinished.textContent = text;
    this.unfinished.className = isFinal ? "" : "unfinished";
    if (isFinal && !text.trim()) this.unfinished.remove();
    if (isFinal) this.unfinished = null;
    this.scroll();
  }

  /** The next piece of what is said. */
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

/** The back-end's answers, the newest on top, and how old that one is. */
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

  asked({ oracle, back_end: backEnd }) {
    const item = document.createElement("li");
    const from = item.appendChild(document.createElement("span"));
    from.className = "from";
    from.textContent = `${backEnd}, asked`;
    const text = item.appendChild(document.createElement("span"));
    this.found.set(oracle, { item, from, text, backEnd, askedAt: performance.now() });
    if (this.found.size > N_ASKED) this.found.delete(this.found.keys().next().value);
  }

  /** A piece has come. Oracles are shown from their first words on; a newer one takes the older one's place on top. */
  told({ oracle, text, age_s: ageS }) {
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

  failed({ oracle, back_end: backEnd, reason }) {
    const one = this.found.get(oracle) ?? this.asked({ oracle, back_end: backEnd }) ?? this.found.get(oracle);
    one.from.textContent = `${backEnd} failed: ${reason}`;
    one.from.classList.add("failed");
    this.show(one);
  }

  show(one) {
    if (!one.item.isConnected) this.list.prepend(one.item);
    while (this.list.children.length > N_ORACLES) this.list.lastChild.remove();
  }

  /** Called again and again, so that the age is seen to grow. */
  tick() {
    if (this.askedAt !== null) this.age.textContent = `${seconds((performance.now() - this.askedAt) / 1000)} old`;
  }
}

/** From the end of what the user says to the first word of the answer, which may come before that end is known. */
export class AnswerDelay {
  constructor(turnEndSilenceS) {
    this.silenceS = turnEndSilenceS;
    this.clear();
  }

  clear() {
    this.saidS = []; // of the last seconds, on the session's clock
    this.endS = null;
  }

  /** The user's turn has ended; seconds if the answer has begun already. */
  stopped(timeS) {
    this.endS = timeS - this.silenceS;
    return this.find();
  }

  /** Something is said; seconds if it is the first word of an answer. */
  said(timeS) {
    this.saidS = [...this.saidS.filter((each) => each > timeS - 30), timeS];
    return this.find();
  }

  find() {
    const firstS = this.endS === null ? undefined : this.saidS.find((each) => each >= this.endS);
    if (firstS === undefined) return null;
    const delayS = firstS - this.endS;
    this.endS = null;
    return delayS;
  }
}
