// The sound of a dialogue: two channels that can be heard apart, speed, a stretch that is played once or looped.

/** Dispatches `time` while it plays, `state` when its state changes, and `fault` (text) when it cannot play. */
export class Player extends EventTarget {
  #audio;
  #gains = null;
  #context = null;
  #stopAtS = null;
  #loop = null;
  solo = null;
  muted = new Set();
  isLooping = false;

  constructor(audio) {
    super();
    this.#audio = audio;
    for (const name of ["play", "pause", "ended"]) {
      audio.addEventListener(name, () => {
        this.#tell("state");
        this.#follow();
      });
    }
    for (const name of ["seeked", "loadedmetadata"]) audio.addEventListener(name, () => this.#tell("time"));
    audio.addEventListener("error", () => this.#tell("fault", audio.error?.message || "the file is damaged or missing"));
  }

  get timeS() {
    return this.#audio.currentTime;
  }

  get isPlaying() {
    return !this.#audio.paused;
  }

  set speed(factor) {
    this.#audio.playbackRate = factor;
  }

  /** Plays or pauses; a stretch is then no longer stopped at its end. */
  toggle() {
    this.#stopAtS = null;
    if (this.isPlaying) this.#audio.pause();
    else this.#play();
  }

  /** Moves to a time, within the duration; a stretch is then no longer stopped at its end. */
  seek(timeS) {
    this.#stopAtS = null;
    this.#audio.currentTime = Math.max(0, Math.min(timeS, this.#audio.duration || timeS));
    this.#tell("time");
  }

  /** Plays from `startS` to 20 ms after `endS` once, and pauses. */
  playStretch(startS, endS) {
    this.seek(startS);
    this.#stopAtS = endS + 0.02;
    this.#play();
  }

  /** Moves to a stretch and loops it when it plays; null ends looping. */
  loopStretch(stretch) {
    this.#loop = stretch;
    this.isLooping = stretch !== null;
    if (stretch) this.seek(stretch.startS);
    this.#tell("state");
  }

  /** Switches looping of the marked stretch, or of the whole audio, on or off. */
  toggleLoop() {
    this.isLooping = !this.isLooping;
    this.#tell("state");
  }

  /** Plays only one speaker, in both ears, or both again; with only one, muting is ignored. */
  toggleSolo(speaker) {
    this.solo = this.solo === speaker ? null : speaker;
    this.#setGains();
  }

  toggleMute(speaker) {
    if (!this.muted.delete(speaker)) this.muted.add(speaker);
    this.#setGains();
  }

  #play() {
    this.#connect();
    this.#context.resume();
    this.#audio.play().catch((error) => this.#tell("fault", error.message));
  }

  /** Connects both channels (left A, right B) through gains, once; browsers allow it only after a press of the user. */
  #connect() {
    if (this.#context) return;
    this.#context = new AudioContext();
    const source = this.#context.createMediaElementSource(this.#audio);
    const splitter = this.#context.createChannelSplitter(2);
    const merger = this.#context.createChannelMerger(2);
    source.connect(splitter);
    this.#gains = {};
    ["A", "B"].forEach((speaker, channel) => {
      const [own, other] = [this.#context.createGain(), this.#context.createGain()];
      splitter.connect(own, channel).connect(merger, 0, channel);
      splitter.connect(other, channel).connect(merger, 0, 1 - channel); // alone, a voice is heard in both ears
      this.#gains[speaker] = [own.gain, other.gain];
    });
    merger.connect(this.#context.destination);
    this.#setGains();
  }

  #setGains() {
    for (const [speaker, [own, other]] of Object.entries(this.#gains ?? {})) {
      const isHeard = this.solo ? this.solo === speaker : !this.muted.has(speaker);
      own.value = isHeard ? 1 : 0;
      other.value = isHeard && this.solo === speaker ? 1 : 0;
    }
    this.#tell("state");
  }

  /** Called at each frame while it plays: stops at the end of a stretch, or begins a loop again. */
  #follow() {
    this.#tell("time");
    const { startS, endS } = this.#loop ?? { startS: 0, endS: this.#audio.duration };
    if (this.#stopAtS !== null && this.timeS >= this.#stopAtS) {
      this.#audio.pause();
      this.seek(this.#stopAtS); // however late this was noticed
    } else if (this.isLooping && (this.timeS >= endS - 0.01 || this.#audio.ended)) {
      this.#audio.currentTime = startS;
      if (!this.isPlaying) this.#play();
    }
    if (this.isPlaying) requestAnimationFrame(() => this.#follow());
  }

  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
