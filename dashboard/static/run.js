// The log of a run, live: each request begins 50 lines before the end, because some lines arrive late.

import "/static/runs.js";

const EVERY_MS = 2000;
const AGAIN = 50;
const MOST_SHOWN = 5000;
const log = document.getElementById("log");
const state = document.getElementById("log-state");
const known = new Set();

function lineOf(entry) {
  const line = document.createElement("li");
  line.className = `is-${entry.level}`;
  const at = Object.assign(document.createElement("time"), { textContent: entry.at });
  line.append(at, ` ${entry.text}`);
  return line;
}

/** Adds new lines of the log, and repeats until the run has ended and all its lines are shown. */
async function follow() {
  const isAlive = document.getElementById("now").dataset.alive === "yes"; // asked before the log: its last lines come too
  let wait = EVERY_MS;
  try {
    const answer = await fetch(`${document.querySelector("main").dataset.log}?first=${Math.max(0, known.size - AGAIN)}`);
    const reply = await answer.json();
    if (!answer.ok) throw new Error(`${reply.error} ${reply.remedy}`);
    const isAtEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 30;
    const added = reply.lines.filter((each) => !known.has(each.id));
    for (const each of added) known.add(each.id);
    log.append(...added.map(lineOf));
    while (log.childElementCount > MOST_SHOWN) log.firstElementChild.remove();
    if (isAtEnd) log.scrollTop = log.scrollHeight;
    const isWhole = !reply.is_more;
    const lines = known.size === 1 ? "1 line" : `${known.size} lines`;
    state.textContent = isAlive ? `${lines}; new lines appear as they are written` : known.size ? lines : "the log is empty";
    if (isWhole && !isAlive) return;
    if (!isWhole) wait = 0;
  } catch (error) {
    state.textContent = error instanceof TypeError ? "the dashboard does not answer; the page keeps trying" : error.message;
  }
  setTimeout(follow, wait);
}
follow();
