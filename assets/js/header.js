// The head of the page: the switch between light and dark, remembered in this browser.

const THEME_KEY = "aded-theme";

export function mountHeader(element) {
  const asked = new URLSearchParams(window.location.search).get("__theme");
  const stored = asked ? null : read();
  if (stored) document.body.classList.toggle("dark", stored === "dark");
  element.querySelector("[data-part='theme']").addEventListener("click", () => {
    const dark = document.body.classList.toggle("dark");
    write(dark ? "dark" : "light");
  });
}

// Storage can be forbidden, for example inside a frame.
function read() {
  try {
    return window.localStorage.getItem(THEME_KEY);
  } catch {
    return null;
  }
}

function write(theme) {
  try {
    window.localStorage.setItem(THEME_KEY, theme);
  } catch {
    return;
  }
}
