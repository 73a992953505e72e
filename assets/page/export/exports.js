// What can be saved. Each card offers its pictures and tables when it is mounted, so the menu has the same entries everywhere, and says what
// they contain when it is drawn.

import { say } from "../core/words.js";

export const GROUPS = ["race", "step", "matrix", "experiment"];

const offers = new Map();
const contents = new Map();

// Adds an entry to the menu. `name` is also the file name; `group`: one of GROUPS; `title`: key of its title; `at`: an element of the card that
// it belongs to; `picture`, `table`: whether there is one.
export function offerExport(name, { group, title, at, picture = false, table = false }) {
  offers.set(name, { name, group, title, at, picture, table });
}

// What an entry contains now:
//   place: returns the element that must be on the page for it, null if it cannot be saved now; a picture is only made of what is on screen
//   picture: returns the elements of the picture, from top to bottom, rows of them as lists; null for one that is not drawn yet
//   table: returns its rows, the header first
export function registerExport(name, { place, picture = null, table = null }) {
  contents.set(name, { place, picture, table });
}

// All entries: {name, title, picture, table, hint}; a picture or a table is null if there is none, false if it cannot be saved now, for the
// reason `hint`.
export function exportsOf(group) {
  return [...offers.values()].filter((offer) => offer.group === group).map(entryOf);
}

function entryOf({ name, title, at, ...offer }) {
  const content = contents.get(name);
  const there = Boolean(content) && isThere(content.place());
  const picture = offer.picture ? there && Boolean(content.picture) && whole(content.picture()) : null;
  const table = offer.table ? there && Boolean(content.table) : null;
  return { name, title, picture, table, hint: [picture, table].includes(false) ? hintOf(at) : "" };
}

// How to get what cannot be saved now.
function hintOf(at) {
  if (!isThere(at)) return say("save.why.none"); // its card is not for this step or run
  const panel = at.closest("[role='tabpanel']");
  const section = at.closest("[data-section]");
  if (panel?.hidden) return say("save.why.tab", { name: say(`tab.${panel.dataset.panel}`) });
  if (section && !section.open) return say("save.why.section", { name: say(`section.${section.dataset.section}`) });
  return say("save.why.none");
}

export function pictureOf(name) {
  return { title: offers.get(name).title, parts: contents.get(name).picture() };
}

export function tableOf(name) {
  return contents.get(name).table();
}

function whole(picture) {
  const elements = picture.flat(Infinity);
  return elements.every(Boolean) && elements.some(onScreen);
}

// Whether an element is on the page, if need be in another tab.
function isThere(element) {
  if (!element?.isConnected || getComputedStyle(element).visibility === "hidden") return false;
  for (let at = element; at && at !== document.body; at = at.parentElement) {
    if (at.getAttribute("role") !== "tabpanel" && getComputedStyle(at).display === "none") return false;
  }
  return true;
}

export function onScreen(element) {
  return Boolean(element) && element.getClientRects().length > 0;
}
