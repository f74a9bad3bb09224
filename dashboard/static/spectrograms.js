// Spectrograms of both speakers, fetched from the server when they are switched on; the choice is kept for this tab.

const KEPT = "kame-spectrogram";

export class Spectrograms {
  #button;
  #data;
  #fail;
  #levels = null;

  /** @param data `spectrogram`, the start of their URLs, and `of`, the dataset's fingerprint; `fail` shows an error. */
  constructor(button, data, fail) {
    this.#button = button;
    this.#data = data;
    this.#fail = fail;
    button.addEventListener("click", () => this.toggle());
    addEventListener("themechange", () => this.#draw());
    if (sessionStorage.getItem(KEPT)) this.toggle();
  }

  /** Switches them on or off; if they cannot be fetched, shows the error and stays off. */
  async toggle() {
    const isOn = this.#button.getAttribute("aria-pressed") !== "true";
    this.#button.setAttribute("aria-pressed", isOn);
    sessionStorage.setItem(KEPT, isOn ? "on" : "");
    try {
      if (isOn) this.#levels ??= await Promise.all(["A", "B"].map((speaker) => this.#fetch(speaker)));
    } catch (error) {
      this.#button.setAttribute("aria-pressed", false);
      this.#fail(`The spectrograms cannot be shown: ${error.message}`);
    }
    for (const track of document.querySelectorAll(".spectrum")) track.hidden = this.#button.getAttribute("aria-pressed") !== "true";
    this.#draw();
  }

  async #fetch(speaker) {
    const answer = await fetch(`${this.#data.spectrogram}${speaker}?of=${this.#data.of}`);
    if (!answer.ok) throw new Error((await answer.json()).error);
    return [speaker, new Uint8Array(await answer.arrayBuffer())];
  }

  /** Draws them, if they were fetched: each level is the opacity of a pixel in the text's colour. */
  #draw() {
    for (const [speaker, levels] of this.#levels ?? []) {
      const canvas = document.querySelector(`.spectrum [data-speaker="${speaker}"]`);
      canvas.width = levels.length / canvas.height;
      const colour = getComputedStyle(canvas).color.match(/[\d.]+/g).slice(0, 3).map(Number);
      const picture = new ImageData(canvas.width, canvas.height);
      levels.forEach((level, index) => picture.data.set([...colour, level], 4 * index));
      canvas.getContext("2d").putImageData(picture, 0, 0);
    }
  }
}
