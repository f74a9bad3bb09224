// Input and output in the audio thread, at 24 kHz: frames of the microphone, and a queue of audio to play, which starts
// with a small reserve and is limited in length.

const FRAME = 1920; // samples: 80 ms at 24 kHz
const HELD_BACK = 2 * FRAME; // before playing begins, so that a late frame makes no gap
const LONGEST = 8 * FRAME; // more than this is heard as delay: the oldest goes
const WATCHED = 48000; // samples, two seconds, in which what waits at the least is looked at
const REPORT = 6000; // samples between two reports: a quarter of a second

class Microphone extends AudioWorkletProcessor {
  constructor() {
    super();
    this.frame = new Float32Array(FRAME);
    this.filled = 0;
  }

  process([[heard]]) {
    if (!heard) return true; // nothing is connected yet
    for (const sample of heard) {
      this.frame[this.filled++] = sample;
      if (this.filled === FRAME) {
        this.port.postMessage(this.frame);
        this.frame = new Float32Array(FRAME);
        this.filled = 0;
      }
    }
    return true;
  }
}

class Player extends AudioWorkletProcessor {
  constructor() {
    super();
    this.clear();
    this.gaps = 0;
    this.dropped = 0;
    this.sinceReport = 0;
    this.port.onmessage = ({ data }) => {
      if (data === "clear") this.clear();
      else if (data === "end") this.ending = true; // what is there is played, and then silence is no gap
      else this.add(data);
    };
  }

  clear() {
    this.queue = [];
    this.at = 0; // samples of the first piece that have been played
    this.waiting = 0; // samples in the queue
    this.playing = false;
    this.ending = true;
    this.watch();
  }

  /** Starts a new measurement of the minimum length of the queue. */
  watch() {
    this.least = Infinity;
    this.watched = 0;
  }

  /** Adds a piece to the queue; above `LONGEST`, the oldest are discarded. */
  add(samples) {
    this.queue.push(samples);
    this.waiting += samples.length;
    this.ending = false;
    this.drop(this.waiting - LONGEST);
  }

  /** Discards the oldest pieces until at least `surplus` samples are gone; counts them in `dropped`. */
  drop(surplus) {
    while (surplus > 0) {
      const length = this.queue.shift().length - this.at;
      this.at = 0;
      this.waiting -= length;
      this.dropped += length;
      surplus -= length;
    }
  }

  process(inputs, [[out]]) {
    if (!this.playing && this.waiting >= (this.ending ? 1 : HELD_BACK)) {
      this.playing = true;
      this.watch();
    }
    if (this.playing) this.fill(out);
    this.shorten(out.length);
    this.sinceReport += out.length;
    if (this.sinceReport >= REPORT) {
      this.sinceReport = 0;
      this.port.postMessage({ waiting: this.waiting, gaps: this.gaps, dropped: this.dropped });
    }
    return true;
  }

  /** Plays from the queue; if it runs empty, playing stops, which counts as a gap unless the response has ended. */
  fill(out) {
    for (let n = 0; n < out.length; n++) {
      if (!this.queue.length) {
        this.playing = false;
        this.gaps += this.ending ? 0 : 1;
        return;
      }
      out[n] = this.queue[0][this.at++];
      this.waiting--;
      if (this.at === this.queue[0].length) {
        this.queue.shift();
        this.at = 0;
      }
    }
  }

  /** Every 2 s, discards the part of the queue that was never needed, which would stay as delay after a late frame. */
  shorten(played) {
    this.least = Math.min(this.least, this.waiting);
    this.watched += played;
    if (this.watched < WATCHED) return;
    if (this.playing && this.least > HELD_BACK + FRAME) this.drop(this.least - HELD_BACK - FRAME);
    this.watch();
  }
}

registerProcessor("microphone", Microphone);
registerProcessor("player", Player);
