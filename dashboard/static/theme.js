// Light or dark: as the system says, until the switch says otherwise. Loaded before the page is painted.
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
