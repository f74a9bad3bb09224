// The two ends of the sound in the audio thread, at 24 kHz: what the microphone hears, a frame at a time, and what is
// played, out of a queue that is held back a little and never grows long.

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

  /** Begins to look how much waits at the least. */
  watch() {
    this.least = Infinity;
    this.watched = 0;
  }

  add(samples) {
    this.queue.push(samples);
    this.waiting += samples.length;
    this.ending = false;
    this.drop(this.waiting - LONGEST);
  }

  /** Throws away the oldest samples, so many at least, in whole pieces. */
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

  /** A hitch of the network leaves sound waiting for ever, as delay: what was never needed goes. */
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
