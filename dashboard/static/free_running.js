// Texts of free running: a <details> for each evaluation, the newest open. Texts are never markup.

const written = (value) => value.toLocaleString("en").replaceAll(",", "\u202f");

function made(name, text, className = "") {
  const element = document.createElement(name);
  element.textContent = text;
  element.className = className;
  return element;
}

/** Shows evaluations in a section with `#free-steps`, `#no-free` and `#free-left-out`; with null, it does nothing. */
export class FreeRunning {
  #section;
  #shown = new Map(); // step: {fold, key}

  constructor(section) {
    this.#section = section;
  }

  /** Replaces the shown evaluations by those of an update. Those that the user has opened or closed stay so. */
  show({ steps, n_left_out: nLeftOut }) {
    if (!this.#section) return;
    const box = this.#section.querySelector("#free-steps");
    const before = this.#shown;
    this.#shown = new Map();
    for (const each of steps) {
      const key = JSON.stringify(each);
      const known = before.get(each.step);
      const fold = known?.key === key ? known.fold : foldOf(each, known?.fold);
      this.#shown.set(each.step, { fold, key });
    }
    const folds = [...this.#shown.values()].map(({ fold }) => fold);
    folds.forEach((fold, index) => {
      if (!fold.dataset.chosen) fold.open = index === 0;
    });
    box.replaceChildren(...folds);
    this.#section.querySelector("#no-free").hidden = steps.length > 0;
    const rest = this.#section.querySelector("#free-left-out");
    rest.hidden = !nLeftOut;
    rest.textContent = `The newest ${written(steps.length)} evaluations are shown; free_running.jsonl in the folder of the run has ${written(nLeftOut)} more.`;
  }
}

/** Makes the <details> of an evaluation; it is open or closed as `before`, its earlier one, if the user chose that. */
function foldOf({ step, dialogues }, before) {
  const fold = document.createElement("details");
  fold.className = "free-step";
  if (before?.dataset.chosen) [fold.open, fold.dataset.chosen] = [before.open, "yes"];
  const turns = dialogues.flatMap((each) => each.turns);
  const nRight = turns.filter((each) => each.is_right).length;
  const head = made("summary", `Step ${written(step)}`);
  head.append(" ", made("span", `${nRight} of ${turns.length} ${turns.length === 1 ? "answer" : "answers"} right`));
  head.addEventListener("click", () => (fold.dataset.chosen = "yes"));
  const grid = document.createElement("div");
  grid.append(...dialogues.map(cardOf));
  fold.append(head, grid);
  return fold;
}

/** Makes the <article> of a dialogue with its answers. */
function cardOf({ dialogue_id: id, question, turns }) {
  const card = document.createElement("article");
  card.append(made("h3", id), made("p", question), ...turns.map(turnOf));
  return card;
}

/** Makes the <dl> of an answer: oracle, text of the model with its judgement, and recording. */
function turnOf({ oracle, said, recorded, is_right: isRight, delay_s: delayS }) {
  const list = made("dl", "", "beside");
  const model = made("dd", said);
  const judged = made("p", "");
  judged.append(made("span", isRight ? "right" : said ? "wrong" : "nothing said", `chip state ${isRight ? "right" : "wrong"}`));
  if (delayS !== null) judged.append(made("small", ` ${delayS.toFixed(1)} s after the question`));
  model.append(judged);
  list.append(made("dt", "Oracle"), made("dd", oracle), made("dt", "Model"), model, made("dt", "Recording"), made("dd", recorded));
  return list;
}
