// Settings that the browser stores: theme, language, position in the tour; and what it stores for this tab only. Storage may be unavailable, for example
// in a frame, or full.

const PREFIX = "aded-";

function load(store, name) {
  try {
    return window[store].getItem(PREFIX + name);
  } catch {
    return null;
  }
}

function write(store, name, value) {
  try {
    window[store].setItem(PREFIX + name, value);
  } catch {
    return;
  }
}

export const loadItem = (name) => load("localStorage", name);
export const storeItem = (name, value) => write("localStorage", name, value);
export const loadOfTab = (name) => load("sessionStorage", name);
export const storeOfTab = (name, value) => write("sessionStorage", name, value);
