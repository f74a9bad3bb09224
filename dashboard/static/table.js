// Choices act when their menu is closed, numbers at once; dragging over a histogram writes its range. The address holds the whole view.

const form = document.getElementById("filters");
const columnMenu = document.getElementById("column-menu");
let isChanged = false;

/** Loads the view of the form; empty values are left out of the URL. */
function show() {
  const pairs = [...new FormData(form)].filter(([, value]) => value.trim());
  const query = String(new URLSearchParams(pairs)).replaceAll("%2C", ",");
  location.href = `${form.getAttribute("action")}?${query}`;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  show();
});
form.addEventListener("change", (event) => {
  if (columnMenu.contains(event.target)) {
    const boxes = [...columnMenu.querySelectorAll("input:checked")];
    form.elements.columns.value = boxes.map((box) => box.value).join(",");
  }
  if (event.target.type === "checkbox") isChanged = true;
  else if (event.target.type !== "search") show();
});

// One menu is open at a time; a click elsewhere or Escape closes it, and then what was chosen in it is shown.
const menus = [...form.querySelectorAll("details.menu")];
for (const menu of menus) {
  menu.addEventListener("toggle", () => {
    if (menu.open) menus.filter((other) => other !== menu).forEach((other) => { other.open = false; });
    else if (isChanged) show();
  });
}
document.addEventListener("click", (event) => {
  menus.filter((menu) => !menu.contains(event.target)).forEach((menu) => { menu.open = false; });
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const open = menus.find((menu) => menu.open);
  if (open) {
    open.open = false;
    open.querySelector("summary").focus();
  }
});

for (const chart of form.querySelectorAll(".histogram svg")) {
  const [low, high] = [Number(chart.dataset.low), Number(chart.dataset.high)];
  const input = document.getElementById(chart.dataset.for);
  const shade = chart.querySelector(".drag");
  let from = null;
  const shareAt = (event) => {
    const box = chart.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  const written = (share, round) => {
    const scale = 10 ** Number(chart.dataset.digits);
    return round((low + share * (high - low)) * scale) / scale;
  };
  chart.addEventListener("pointerdown", (event) => {
    from = shareAt(event);
    chart.setPointerCapture(event.pointerId);
  });
  chart.addEventListener("pointermove", (event) => {
    if (from === null) return;
    const [start, end] = [from, shareAt(event)].sort((a, b) => a - b);
    shade.setAttribute("x", 160 * start);
    shade.setAttribute("width", 160 * (end - start));
    input.value = `${written(start, Math.floor)}..${written(end, Math.ceil)}`;
  });
  chart.addEventListener("pointerup", (event) => {
    if (from === null) return;
    const isClick = Math.abs(shareAt(event) - from) < 0.01;
    from = null;
    if (isClick) input.value = "";
    if (input.value !== input.defaultValue) show();
  });
  chart.addEventListener("pointercancel", () => {
    from = null;
    input.value = input.defaultValue;
    shade.setAttribute("width", 0);
  });
}
