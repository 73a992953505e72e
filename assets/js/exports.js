// What can be saved: each panel registers its picture and its table under a name.

export const GROUPS = ["race", "step", "matrix", "experiment"];

const exports = new Map();

// Registers a picture and a table under a name, which is also the file name:
//   group: one of GROUPS; title: key of its title; place: returns the element that must be on screen for it
//   picture: returns the elements of the picture, from top to bottom; null for one that is not drawn yet
//   table: returns its rows, the header first
export function registerExport(name, { group, title, place, picture = null, table = null }) {
  exports.set(name, { name, group, title, place, picture, table });
}

// The exports that are available now: {name, group, title, picture (whether there is one), table (likewise)}.
export function availableExports() {
  return [...exports.values()]
    .filter(({ place }) => onScreen(place()))
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

function onScreen(element) {
  return Boolean(element) && element.getClientRects().length > 0;
}
