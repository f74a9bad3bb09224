// What every page needs before it is painted. Light or dark: as the system says, until the switch says otherwise.
const chosen = localStorage.getItem("theme");
if (chosen) document.documentElement.dataset.theme = chosen;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const tellTheme = () => dispatchEvent(new Event("themechange")); // what is drawn on a canvas is redrawn
prefersDark.addEventListener("change", tellTheme);

addEventListener("DOMContentLoaded", () => {
  document.getElementById("theme").addEventListener("click", () => {
    const { dataset } = document.documentElement;
    const isDark = dataset.theme ? dataset.theme === "dark" : prefersDark.matches;
    dataset.theme = isDark ? "light" : "dark";
    localStorage.setItem("theme", dataset.theme);
    tellTheme();
  });
});

// A button that is pressed before the page's scripts have run is pressed for them once they have: none goes lost, and
// no form is sent past its script.
let early = null;
/** Stops a click on a button and remembers the button. */
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
