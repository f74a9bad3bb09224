// The SQL box: the query goes to a process of its own; the address holds it, and only a press on Run runs it.

const form = document.getElementById("sql");
const query = document.getElementById("query");
const status = document.getElementById("status");
const table = document.getElementById("result");
const links = { csv: document.getElementById("as-csv"), parquet: document.getElementById("as-parquet") };
let running = null;

/** Updates the links of the downloads to the current query. */
function link() {
  for (const [kind, each] of Object.entries(links)) {
    each.href = `${form.dataset.result}.${kind}?${new URLSearchParams({ query: query.value })}`;
  }
}

function cells(kind, texts) {
  const row = document.createElement("tr");
  for (const text of texts) {
    const cell = document.createElement(kind);
    cell.textContent = text;
    if (kind === "th") cell.scope = "col";
    row.append(cell);
  }
  return row;
}

/** Runs the query, after cancelling the previous request, and shows its rows or the error; the URL gets the query. */
async function run() {
  running?.abort();
  const mine = (running = new AbortController());
  history.replaceState(null, "", `?${new URLSearchParams({ query: query.value })}`);
  status.className = "quiet";
  status.textContent = "Running …";
  const began = performance.now();
  try {
    const address = `${form.dataset.result}.json?${new URLSearchParams({ query: query.value })}`;
    const answer = await fetch(address, { signal: mine.signal });
    const reply = await answer.json();
    if (!answer.ok) throw new Error(`${reply.error} ${reply.remedy ?? ""}`.trim());
    table.tHead.replaceChildren(cells("th", reply.columns));
    table.tBodies[0].replaceChildren(...reply.rows.map((row) => cells("td", row)));
    table.hidden = reply.columns.length === 0;
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    const rest = reply.is_cut ? ", the first of more: take them as CSV or Parquet" : "";
    status.textContent = `${reply.rows.length} rows${rest}, in ${seconds} s`;
  } catch (error) {
    if (error.name === "AbortError") return;
    table.hidden = true;
    status.className = "bad";
    status.textContent = error.message;
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
query.addEventListener("input", link);
query.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run();
});
link();
