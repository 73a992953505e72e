// What can be saved: each panel registers its picture and its table under a name.

export const GROUPS = ["race", "step", "matrix", "experiment"];

const exports = new Map();

// Registers a picture and a table under a name, which is also the file name:
//   group: one of GROUPS; title: key of its title; place: returns the element that must be on the page for it, null if it cannot be saved
//   now; a picture is only offered while it is on screen
//   picture: returns the elements of the picture, from top to bottom; null for one that is not drawn yet
//   table: returns its rows, the header first
export function registerExport(name, { group, title, place, picture = null, table = null }) {
  exports.set(name, { name, group, title, place, picture, table });
}

// The exports that are available now: {name, group, title, picture (whether there is one), table (likewise)}.
export function availableExports() {
  return [...exports.values()]
    .filter(({ place }) => isThere(place()))
    .map(({ name, group, title, picture, table }) => ({ name, group, title, picture: Boolean(picture) && whole(picture()), table: Boolean(table) }))
    .filter(({ picture, table }) => picture || table);
}

export function pictureOf(name) {
  const { title, picture } = exports.get(name);
  return { title, parts: picture() };
}

export function tableOf(name) {
  return exports.get(name).table();
}

function whole(elements) {
  return elements.every(Boolean) && elements.some(onScreen);
}

// Whether an element is on the page, if need be in another tab or in a closed section.
function isThere(element) {
  for (let at = element; at && at !== document.body; at = at.parentElement) {
    if (at.getAttribute("role") !== "tabpanel" && getComputedStyle(at).display === "none") return false;
  }
  return Boolean(element);
}

export function onScreen(element) {
  return Boolean(element) && element.getClientRects().length > 0;
}
