// What every page needs before it is painted. Light or dark: as the system says, until the switch says otherwise.
const chosen = localStorage.getItem("theme");
if (chosen) document.documentElement.dataset.theme = chosen;

addEventListener("DOMContentLoaded", () => {
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = getComputedStyle(root).colorScheme === "dark" || (!root.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
    root.dataset.theme = isDark ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
    dispatchEvent(new Event("themechange"));
  });
});

// A button that is pressed before the page's scripts have run is pressed for them once they have: none goes lost, and
// no form is sent past its script.
let early = null;
function keep(event) {
  const button = event.target.closest?.("button");
  if (!button) return;
  event.preventDefault();
  event.stopPropagation();
  early = button;
}
addEventListener("click", keep, true);
addEventListener("DOMContentLoaded", () => {
  removeEventListener("click", keep, true);
  early?.click();
});
