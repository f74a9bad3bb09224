// A run's figures over steps or hours, a chart a figure, drawn by uPlot; several runs have a colour each.

const GROUPS = {
  "Losses, nats": ["loss", "text", "answer", "semantic", "acoustic", "padding"],
  "Correct tokens, share": ["text_right", "answer_right"],
  "Copying words": ["accuracy", "lesson", "token_greedy", "once_greedy", "once_sampled", "more_sampled", "copy_text", "copy_answer"],
  "Free running, share of answers": ["once", "first", "words", "silent", "recorded_once", "turns"],
  "Steps": ["learning_rate", "gradient_norm"],
  "Speed and memory": ["frames_per_s", "mfu", "memory_gb"],
};
const REST = "All other figures";
const TITLES = {
  loss: "whole loss",
  semantic: "audio, semantic",
  acoustic: "audio, acoustic",
  text_right: "text",
  answer_right: "answer",
  frames_per_s: "frames a second",
  mfu: "share of the device's speed",
  memory_gb: "memory, GB",
  token_greedy: "free running: next token, greedy",
  once_greedy: "free running: said once, greedy",
  once_sampled: "free running: said once, sampled",
  more_sampled: "free running: longer by half or more, sampled",
  once: "the right answer said once, and no other",
  first: "the right answer said before any other",
  words: "words of the oracle that are said",
  silent: "nothing said",
  recorded_once: "right in the recording: an upper bound",
  turns: "number of judged answers",
};
const ORACLES = { right: ", right oracle", wrong: ", wrong oracle", none: ", no oracle" };
const NO_FIGURES = ["step", "hours"];
const WIDTHS = { train: 1, evaluation: 2 };
const HEIGHT = 190;

/** The figures of some runs. Each run has a `name`, a `swatch` of its colour, and `curves`: columns by kind of line. */
export class Curves {
  #box;
  #runs;
  #charts = new Map(); // figure: {plot, key}
  #seen = new IntersectionObserver((entries) => entries.forEach((each) => this.#resize(each.target)));

  constructor(box, runs) {
    this.#box = box;
    this.#runs = runs;
    new ResizeObserver(() => this.#box.querySelectorAll("figure").forEach((each) => this.#resize(each))).observe(box);
  }

  /** Draws the current figures over `x` (steps or hours); a chart that the user has zoomed keeps its range. */
  draw(x, smooth) {
    const all = new Map(); // figure: its lines
    for (const run of this.#runs) {
      for (const [kind, columns] of Object.entries(run.curves)) {
        if (kind === "spike") continue;
        for (const name of Object.keys(columns)) {
          if (NO_FIGURES.includes(name)) continue;
          const [figure, oracle] = name.split(".").reverse();
          if (this.#runs.length > 1 && oracle && oracle !== "right") continue;
          if (!all.has(figure)) all.set(figure, []);
          all.get(figure).push(this.#line(run, kind, oracle, columns, name, x, smooth));
        }
      }
    }
    for (const [figure, lines] of all) this.#show(figure, lines, x);
  }

  /** Destroys all charts; the next `draw` makes them again. */
  forget() {
    for (const { plot } of this.#charts.values()) plot.destroy();
    this.#charts.clear();
    this.#box.replaceChildren();
  }

  #line(run, kind, oracle, columns, name, x, smooth) {
    const at = x === "hours" ? hoursOf(run, columns) : columns.step;
    const points = at.map((each, index) => [each, columns[name][index]]).filter(([each, value]) => each !== null && value !== null);
    const values = points.map(([, value]) => value);
    const isOne = this.#runs.length === 1;
    const what = kind === "train" ? "training" : kind === "evaluation" ? `validation${isOne ? ORACLES[oracle] ?? "" : ""}` : kind;
    return {
      label: isOne ? what : `${run.name}, ${what}`,
      colour: isOne && oracle ? colourOf(`oracle-${oracle}`) : getComputedStyle(run.swatch).color,
      width: WIDTHS[kind] ?? 1.5,
      isDashed: kind !== "train" && !isOne,
      x: points.map(([each]) => each),
      y: kind === "train" && smooth ? smoothed(values, smooth) : values,
    };
  }

  #show(figure, lines, x) {
    const data = uPlot.join(lines.map((each) => [each.x, each.y]));
    const key = JSON.stringify(lines.map((each) => each.label));
    const known = this.#charts.get(figure);
    if (known?.key === key) {
      const { min, max } = known.plot.scales.x;
      const all = known.plot.data[0];
      const isWhole = min <= all[0] && max >= all.at(-1);
      known.plot.setData(data, isWhole);
      if (!isWhole) known.plot.redraw();
      return;
    }
    known?.plot.destroy();
    const box = this.#boxOf(figure);
    box.querySelector(".uplot")?.remove();
    const plot = new uPlot(options(box, lines, x), data, box);
    plot.ctx.canvas.setAttribute("role", "img");
    plot.ctx.canvas.setAttribute("aria-label", `${box.querySelector("figcaption").textContent} over ${x === "hours" ? "hours" : "steps"}`);
    this.#charts.set(figure, { plot, key });
  }

  /** Returns the element of a chart in its group; both are made if they are new, in the order of `GROUPS`. */
  #boxOf(figure) {
    const id = `curve-${figure}`;
    const known = document.getElementById(id);
    if (known) return known;
    const titles = [...Object.keys(GROUPS), REST];
    const title = titles.find((each) => GROUPS[each]?.includes(figure)) ?? REST;
    let group = [...this.#box.children].find((each) => each.dataset.group === title);
    if (!group) {
      group = document.createElement(title === REST ? "details" : "section");
      group.className = "curves";
      group.dataset.group = title;
      const head = document.createElement(title === REST ? "summary" : "h2");
      head.textContent = title;
      const grid = document.createElement("div");
      group.append(head, grid);
      const next = [...this.#box.children].find((each) => titles.indexOf(each.dataset.group) > titles.indexOf(title));
      this.#box.insertBefore(group, next ?? null);
    }
    const box = document.createElement("figure");
    box.id = id;
    const caption = document.createElement("figcaption");
    caption.textContent = TITLES[figure] ?? figure.replaceAll("_", " ");
    box.append(caption);
    const names = GROUPS[title] ?? [];
    const rank = (each) => names.indexOf(each.id.slice("curve-".length));
    const next = [...group.lastChild.children].find((each) => rank(each) > names.indexOf(figure));
    group.lastChild.insertBefore(box, next ?? null);
    this.#seen.observe(box);
    return box;
  }

  #resize(box) {
    const chart = this.#charts.get(box.id.slice("curve-".length));
    if (chart && box.clientWidth && chart.plot.width !== box.clientWidth) chart.plot.setSize({ width: box.clientWidth, height: HEIGHT });
  }
}

function options(box, lines, x) {
  const [ink, grid] = [getComputedStyle(box.querySelector("figcaption")).color, getComputedStyle(box).borderTopColor];
  const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 }, font: "11px system-ui" };
  const label = (value) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(4))));
  return {
    width: box.clientWidth || 300,
    height: HEIGHT,
    scales: { x: { time: false }, y: { range: rangeOf } },
    cursor: { sync: { key: "runs", scales: ["x", null] }, points: { size: 5 } },
    legend: { live: true },
    axes: [
      { ...axis, size: 26, values: (_, ticks) => ticks.map((each) => label(each)) },
      { ...axis, size: 54, values: (_, ticks) => ticks.map((each) => label(each)) },
    ],
    series: [
      { label: x === "hours" ? "hours" : "step", value: (_, value) => label(value) },
      ...lines.map((each) => ({
        label: each.label,
        stroke: each.colour,
        width: each.width,
        dash: each.isDashed ? [5, 3] : undefined,
        spanGaps: true,
        points: { show: each.y.length < 40, size: 4, fill: each.colour },
        value: (_, value) => label(value),
      })),
    ],
  };
}

/** Returns the range of an axis: 0 to 1 for a curve that is 0 everywhere, where uPlot's own of 0 to 100 misleads. */
function rangeOf(_, min, max) {
  if (min === null) return [null, null];
  return min === 0 && max === 0 ? [0, 1] : uPlot.rangeNum(min, max, 0.1, true);
}

/** Returns the hours of each line: its own, or interpolated between training lines; null if there are none. */
function hoursOf(run, columns) {
  const { step = [], hours = [] } = run.curves.train ?? {};
  const at = (wanted) => {
    const index = step.findIndex((each) => each >= wanted);
    if (index === -1) return hours.at(-1) ?? null;
    if (index === 0) return hours[0];
    const share = (wanted - step[index - 1]) / (step[index] - step[index - 1]);
    return hours[index - 1] + share * (hours[index] - hours[index - 1]);
  };
  return columns.hours ?? columns.step.map(at);
}

/** Returns the exponential moving average of values, corrected for its start; `keep` is the weight of earlier ones. */
function smoothed(values, keep) {
  let [mean, weight] = [0, 0];
  return values.map((value) => {
    mean = keep * mean + (1 - keep) * value;
    weight = keep * weight + (1 - keep);
    return mean / weight;
  });
}

/** Returns the text colour that the style sheet gives to a class. */
function colourOf(name) {
  const probe = document.createElement("i");
  probe.className = name;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
