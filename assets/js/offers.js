// What can be saved: each panel offers its picture and its table under a name. Nothing is listed anywhere else.

export const GROUPS = ["race", "step", "matrix", "experiment"];

const offers = new Map();

// Offers something under a name, which becomes its files' name:
//   group: one of GROUPS; title: a key of the words; place: gives the element that must be on screen for it;
//   picture: gives the elements that it consists of, one below the other, null for one that is not drawn yet;
//   table: gives its rows, the first of which is the head
export function offer(name, { group, title, place, picture = null, table = null }) {
  offers.set(name, { name, group, title, place, picture, table });
}

// The offers of the moment: {name, group, title, picture (whether there is one), table (likewise)}.
export function offered() {
  return [...offers.values()]
    .filter(({ place }) => onScreen(place()))
    .map(({ name, group, title, picture, table }) => ({ name, group, title, picture: Boolean(picture) && whole(picture()), table: Boolean(table) }))
    .filter(({ picture, table }) => picture || table);
}

export function pictureOf(name) {
  const { title, picture } = offers.get(name);
  return { title, parts: picture() };
}

export function tableOf(name) {
  return offers.get(name).table();
}

function whole(elements) {
  return elements.every(Boolean) && elements.some(onScreen);
}

function onScreen(element) {
  return Boolean(element) && element.getClientRects().length > 0;
}
