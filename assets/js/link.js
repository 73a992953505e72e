// The address as a description of what is on screen: read, checked and written. Values are text, whatever they hold.

import { cited } from "./dom.js";

export const PLACE = ["race", "run", "file"];
export const VIEW = [...PLACE, "lane", "step", "node", "pair"];
export const PAGE = ["theme", "lang", "hide"];

// Name to value; what stands behind # goes before what stands behind ?.
export function readLink({ search, hash }) {
  return Object.fromEntries([...new URLSearchParams(search), ...new URLSearchParams(hash.replace(/^#/, ""))]);
}

// A link as it stands behind #: the view first, then the page, then the settings; what is empty is left out.
export function writeLink(link) {
  const rest = Object.keys(link).filter((name) => !VIEW.includes(name) && !PAGE.includes(name));
  const names = [...VIEW, ...PAGE, ...rest].filter((name) => link[name] !== undefined && link[name] !== null && link[name] !== "");
  const text = new URLSearchParams(names.map((name) => [name, String(link[name])])).toString();
  return text ? `#${text}` : "";
}

// Whether a link asks for more than the race on screen: another race, settings in the controls, or a run.
export function asksServer(link, race) {
  return Object.keys(settingsOf(link)).length > 0 || (link.race !== undefined && link.race !== race) || Boolean(viewOf(link).run);
}

// What of a link is for the controls.
export function settingsOf(link) {
  return Object.fromEntries(Object.entries(link).filter(([name]) => !VIEW.includes(name) && !PAGE.includes(name) && !name.startsWith("__")));
}

// What a link asks for, where it leaves something open: what it names is looked for in the view that the page began with.
export function completed(link, first) {
  const named = VIEW.findIndex((name) => link[name]);
  if (PLACE.includes(VIEW[named])) return link;
  const open = Object.entries(first ?? {}).filter(([name]) => named < 0 || VIEW.indexOf(name) < named);
  return { ...Object.fromEntries(open), ...link };
}

// Whether two views are of different races.
export function otherPlace(one, other) {
  return PLACE.some((name) => (one[name] ?? null) !== (other[name] ?? null));
}

// Whether two links set the same; which setting an ablation varies is said of its race alone.
export function sameSettings(one, other) {
  const sorted = (link) => JSON.stringify(Object.entries({ ...settingsOf(link), ablation: null }).sort(([a], [b]) => (a < b ? -1 : 1)));
  return sorted(one) === sorted(other);
}

// Sentences on what a link says of the page and of the view and cannot mean, as keys and values; `languages` are codes.
export function faultsOf(link, languages) {
  const view = viewOf(link);
  const wrong = {
    theme: link.theme && !["light", "dark"].includes(link.theme),
    lang: link.lang && !languages.includes(link.lang),
    hide: link.hide && link.hide !== "controls",
    run: link.run && !view.run,
    step: link.step && view.step === null,
    node: link.node && view.node === null,
    pair: link.pair && view.pair === null,
  };
  return Object.keys(wrong).filter((name) => wrong[name]).map((name) => [`link.${name}`, { value: cited(link[name]) }]);
}

// The view that a link names, as the player counts: steps from 0. What is no whole number is null.
export function viewOf(link) {
  return { race: link.race, run: /^(1|[0-9a-f]{8})$/.test(link.run || "") ? link.run : null, file: link.file, lane: link.lane, step: whole(link.step, 1), node: whole(link.node, 0), pair: pairOf(link.pair) };
}

// Two ids of tokens, as the matrix names a pair.
function pairOf(text) {
  return /^\d{1,7} \d{1,7}$/.test(text || "") ? text : null;
}

function whole(text, first) {
  return /^-?\d{1,6}$/.test(text || "") ? Number(text) - first : null;
}
