// The address as a description of the view: parsed, checked and written. All values are text from outside.

import { cited } from "../core/dom.js";
import { TABS } from "./tabs.js";

// Parameters of the address. Of RACE, one names the race: a recorded race by title, a live race by id (run), a file by name.
export const RACE = ["race", "run", "file"];
const VIEW = [...RACE, "turn", "method", "step", "node", "bigram", "tab"];
const PAGE = ["theme", "lang", "hide", "lesson", "part", "tool", "alpha", "gamma", "c", "v", "rows"];

const afterHash = ({ hash }) => new URLSearchParams(hash.replace(/^#/, ""));

// Name to value; parameters after # override those after ?, and of several with one name the last one counts.
export function readLink(location) {
  return Object.fromEntries([...new URLSearchParams(location.search), ...afterHash(location)]);
}

// Messages about parameters that are in a link more than once, and on a page without a server about its settings.
export function extraFaults(location, server) {
  const names = [...afterHash(location).keys()];
  const twice = [...new Set(names.filter((name, i) => names.indexOf(name) < i))];
  const unused = server ? [] : Object.keys(settingsOf(Object.fromEntries(afterHash(location))));
  return [...twice.map((name) => ["link.twice", { value: cited(name) }]), ...(unused.length ? [["link.unused", { value: cited(unused.join(", ")) }]] : [])];
}

// The link as the part after #: the view first, then the page, then the settings; empty values are left out.
export function writeLink(link) {
  const rest = Object.keys(link).filter((name) => !VIEW.includes(name) && !PAGE.includes(name));
  const names = [...VIEW, ...PAGE, ...rest].filter((name) => link[name] !== undefined && link[name] !== null && link[name] !== "");
  const text = new URLSearchParams(names.map((name) => [name, String(link[name])])).toString();
  return text ? `#${text}` : "";
}

// Whether a link needs the server: for another race, for settings in the controls, or for a live race.
export function asksServer(link, race) {
  return Object.keys(settingsOf(link)).length > 0 || (link.race !== undefined && link.race !== race) || Boolean(viewOf(link).run);
}

// The parameters of a link that are settings of the controls.
export function settingsOf(link) {
  return Object.fromEntries(Object.entries(link).filter(([name]) => !VIEW.includes(name) && !PAGE.includes(name) && !name.startsWith("__")));
}

// A link with the missing parts of its view taken from the view that the page started with.
export function completed(link, first) {
  const named = VIEW.findIndex((name) => link[name]);
  if (RACE.includes(VIEW[named])) return link;
  const open = Object.entries(first ?? {}).filter(([name]) => named < 0 || VIEW.indexOf(name) < named);
  return { ...Object.fromEntries(open), ...link };
}

// The message about a live race that is a later turn of a conversation.
export function turnNote(view) {
  return view?.turn > 1 ? [["link.turn", { number: view.turn }]] : [];
}

// Whether two views show different races.
export function otherRace(one, other) {
  return RACE.some((name) => (one[name] ?? null) !== (other[name] ?? null));
}

// Whether two links have the same settings; the ablation belongs to the race, not to the settings.
export function sameSettings(one, other) {
  const sorted = (link) => JSON.stringify(Object.entries({ ...settingsOf(link), ablation: null }).sort(([a], [b]) => (a < b ? -1 : 1)));
  return sorted(one) === sorted(other);
}

// Messages about parameters of the page, and about the id of a live race, that are invalid; `languages` are language codes, `server`: whether the
// page can run races.
export function faultsOf(link, languages, server = true) {
  const view = viewOf(link);
  const wrong = {
    theme: link.theme && !["light", "dark"].includes(link.theme),
    lang: link.lang && !languages.includes(link.lang),
    hide: link.hide && !["controls", "page"].includes(link.hide),
    [server ? "run" : "run.alone"]: link.run && !view.run,
  };
  const more = { lang: { shown: { say: "language.name" } } };
  return Object.keys(wrong).filter((name) => wrong[name]).map((name) => [`link.${name}`, { value: cited(link[name.split(".")[0]]), ...more[name] }]);
}

const PLACES = ["step", "node", "bigram", "tab"]; // parts of a view that have a form

// The view that a link names, with steps counted from 0; what has an invalid form is null, and `wrong` has its text.
export function viewOf(link) {
  const view = placesOf(link);
  const wrong = PLACES.filter((name) => link[name] && view[name] === null).map((name) => [name, link[name]]);
  return { ...view, wrong: Object.fromEntries(wrong) };
}

function placesOf(link) {
  return { race: link.race, run: /^(1|[0-9a-f]{16})$/.test(link.run || "") ? link.run : null, file: link.file, turn: integer(link.turn, 0), method: link.method, step: integer(link.step, 1), node: integer(link.node, 0), bigram: bigramOf(link.bigram), tab: TABS.includes(link.tab) ? link.tab : null };
}

// A bigram: two token ids.
function bigramOf(text) {
  return /^\d{1,7} \d{1,7}$/.test(text || "") ? text : null;
}

function integer(text, first) {
  return /^-?\d{1,6}$/.test(text || "") ? Number(text) - first : null;
}
