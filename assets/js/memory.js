// What this browser remembers of a visitor: theme, language, place in the tour. Storage can be forbidden, as inside a frame.

const PREFIX = "aded-";

export function recall(name) {
  try {
    return window.localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

export function remember(name, value) {
  try {
    window.localStorage.setItem(PREFIX + name, value);
  } catch {
    return;
  }
}
