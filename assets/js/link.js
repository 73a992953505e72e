// The address as a description of what is on screen: read, checked and written. Values are text, whatever they hold.

export const VIEW = ["race", "run", "lane", "step", "node"];
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

// Whether a link asks for more than the race on screen: another race, or settings in the controls.
export function asksServer(link, race) {
  const settings = Object.keys(link).some((name) => !VIEW.includes(name) && !PAGE.includes(name) && !name.startsWith("__"));
  return settings || (link.race !== undefined && link.race !== race);
}

// The view that a link names, as the player counts: steps from 0. What is no whole number is null.
export function viewOf(link) {
  return { race: link.race, run: link.run === "1", lane: link.lane, step: whole(link.step, 1), node: whole(link.node, 0) };
}

function whole(text, first) {
  return /^-?\d{1,6}$/.test(text || "") ? Number(text) - first : null;
}
