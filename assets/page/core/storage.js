// Settings that the browser stores: theme, language, position in the tour. Storage may be unavailable, for example in a frame.

const PREFIX = "aded-";

export function loadItem(name) {
  try {
    return window.localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}

export function storeItem(name, value) {
  try {
    window.localStorage.setItem(PREFIX + name, value);
  } catch {
    return;
  }
}
