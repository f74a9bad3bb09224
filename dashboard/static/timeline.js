// Everything that has a time, laid out on one clock: `--px` pixels a second, `--s` and `--w` seconds of each piece.

const NAMES_PX = 92; // the column of names, as the style sheet has it

/** Dispatches `seek` (seconds) at a click on the ruler; `select` ({startS, endS}) after a drag, null after a click. */
export class Timeline extends EventTarget {
  #box;
  #cursor;
  #words;
  #px = 110;
  #shownS = 0;

  constructor(box, durationS) {
    super();
    this.#box = box;
    this.durationS = durationS;
    this.#cursor = box.querySelector("#cursor");
    for (const piece of box.querySelectorAll("[data-start]")) {
      const start = Number(piece.dataset.start);
      const end = Number(piece.dataset.end ?? start);
      piece.style.setProperty("--s", start - Number(piece.dataset.from ?? 0));
      piece.style.setProperty("--w", end - start);
    }
    this.#words = [...box.querySelectorAll(".word")].map((button) => ({
      button,
      startS: Number(button.dataset.start),
      endS: Number(button.dataset.end),
    }));
    for (const track of box.querySelectorAll(".words .stage")) this.#giveRoom([...track.children]);
    this.#box.style.setProperty("--duration", durationS);
    this.#listen(box.querySelector("#ruler"));
  }

  /** Sets the width of each word's label (`--room`): up to the next word in its row, of two alternating rows. */
  #giveRoom(words) {
    words.forEach((word, index) => {
      const next = words[index + 2];
      const endS = next ? Number(next.dataset.start) : this.durationS;
      word.style.setProperty("--room", endS - Number(word.dataset.start));
    });
  }

  /** Zooms so that all is visible, within 90 to 400 pixels per second, which keep words readable; returns the zoom. */
  fit() {
    const whole = (this.#box.clientWidth - NAMES_PX - 8) / this.durationS;
    this.zoom(Math.max(90, Math.min(whole, 400)));
    return this.#px;
  }

  /** Sets the pixels per second; the middle of the view stays at its time. */
  zoom(px) {
    const middleS = (this.#box.scrollLeft + (this.#box.clientWidth - NAMES_PX) / 2) / this.#px;
    this.#px = px;
    this.#box.style.setProperty("--px", px);
    this.#box.scrollLeft = middleS * px - (this.#box.clientWidth - NAMES_PX) / 2;
    this.#drawRuler();
  }

  #drawRuler() {
    const stepS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60].find((step) => step * this.#px >= 50) ?? 120;
    const marks = [];
    for (let index = 0; index * stepS <= this.durationS; index += 1) {
      const mark = document.createElement("span");
      mark.style.setProperty("--s", index * stepS);
      mark.textContent = (index * stepS).toFixed(stepS < 1 ? 1 : 0);
      marks.push(mark);
    }
    this.#box.querySelector("#ruler").replaceChildren(...marks);
  }

  /** Moves the cursor to a time, scrolls to it if it has moved out of view, and marks the words spoken then. */
  show(timeS, isPlaying) {
    this.#cursor.style.setProperty("--s", timeS);
    for (const word of this.#words) {
      word.button.classList.toggle("now", word.startS <= timeS && timeS < word.endS);
    }
    const at = timeS * this.#px;
    const room = this.#box.clientWidth - NAMES_PX;
    const isInSight = at >= this.#box.scrollLeft && at <= this.#box.scrollLeft + room * 0.92;
    const hasMoved = isPlaying || timeS !== this.#shownS;
    this.#shownS = timeS;
    if (hasMoved && !isInSight) this.#box.scrollLeft = at - room * 0.1;
  }

  /** Returns the start of the last word more than 50 ms before a time; 0 if there is none. */
  wordBefore(timeS) {
    return Math.max(0, ...this.#words.map((word) => word.startS).filter((startS) => startS < timeS - 0.05));
  }

  /** Returns the start of the first word after a time; the duration if there is none. */
  wordAfter(timeS) {
    return Math.min(this.durationS, ...this.#words.map((word) => word.startS).filter((startS) => startS > timeS + 0.01));
  }

  #listen(ruler) {
    const selection = this.#box.querySelector("#selection");
    let fromS = null;
    const secondsAt = (event) => {
      const timeS = (event.clientX - ruler.getBoundingClientRect().left) / this.#px;
      return Math.max(0, Math.min(this.durationS, timeS));
    };
    const stretch = (event) => {
      const [startS, endS] = [fromS, secondsAt(event)].sort((a, b) => a - b);
      return { startS, endS };
    };
    ruler.addEventListener("pointerdown", (event) => {
      fromS = secondsAt(event);
      ruler.setPointerCapture(event.pointerId);
    });
    ruler.addEventListener("pointermove", (event) => {
      if (fromS === null) return;
      const { startS, endS } = stretch(event);
      selection.hidden = (endS - startS) * this.#px < 4;
      selection.style.setProperty("--s", startS);
      selection.style.setProperty("--w", endS - startS);
    });
    ruler.addEventListener("pointerup", (event) => {
      if (fromS === null) return;
      const found = stretch(event);
      fromS = null;
      const isDrag = (found.endS - found.startS) * this.#px >= 4;
      selection.hidden = !isDrag;
      this.dispatchEvent(new CustomEvent("select", { detail: isDrag ? found : null }));
      if (!isDrag) this.dispatchEvent(new CustomEvent("seek", { detail: found.startS }));
    });
  }
}
