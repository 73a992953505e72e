// Helpers for elements, keys, numbers and visible tokens. Text is only inserted as textContent.

export function el(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function furnish(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const FITTED = { row: 26, least: 5 }; // height in pixels of a row of the tables that only show what fits (base.css), and their least number of rows

// The number of rows that fit into the box of such a table.
export function rowsThatFit(box) {
  const head = box.querySelector("thead")?.offsetHeight ?? 0;
  return Math.max(FITTED.least, Math.floor((box.clientHeight - head) / FITTED.row));
}

export function toggleClass(node, name, on) {
  if (node.classList.contains(name) !== on) node.classList.toggle(name, on);
}

const LARGE = 1e9;

const SUPERSCRIPT = Object.fromEntries(Array.from("-0123456789", (digit, i) => [digit, Array.from("⁻⁰¹²³⁴⁵⁶⁷⁸⁹")[i]]));

// A number as "1.52·10⁻⁵", which no line is broken in.
export function scientific(value, digits) {
  const [factor, power] = value.toExponential(digits).split("e");
  return `${factor}·10${Array.from(power.replace("+", ""), (digit) => SUPERSCRIPT[digit]).join("")}`;
}

// A number with a fixed number of decimals; very large ones in scientific notation.
export function fixed(value, digits) {
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  return Math.abs(value) < LARGE ? value.toFixed(digits) : scientific(value, 2);
}

export function number(value, digits = 2) {
  return value === null || value === undefined ? "–" : fixed(value, digits);
}

// Three decimals for small numbers, two for others.
export function small(value) {
  return number(value, Math.abs(value) < 0.995 ? 3 : 2);
}

export function probability(value) {
  return value > 0 && value < 0.005 ? "<0.01" : number(value);
}

// Four decimals, enough to recompute a score; smaller numbers in scientific notation.
export function exact(value) {
  return value > 0 && value < 0.00005 ? scientific(value, 2) : number(value, 4);
}

export function milliseconds(seconds) {
  const ms = seconds * 1000;
  return ms === 0 ? "0 ms" : ms < 1 ? `${ms.toFixed(2)} ms` : ms < 100 ? `${ms.toFixed(1)} ms` : ms < 1000 ? `${Math.round(ms)} ms` : `${fixed(seconds, 2)} s`;
}

// Bytes in decimal units.
export function bytes(value) {
  const unit = value < 1e3 ? 0 : value < 1e6 ? 1 : value < 1e9 ? 2 : 3;
  return `${unit ? fixed(value / 1000 ** unit, 1) : value} ${["B", "kB", "MB", "GB"][unit]}`;
}

export function count(value) {
  return value < LARGE ? value.toLocaleString("en") : fixed(value, 0);
}

export function rate(value) {
  return value >= 100 ? count(Math.round(value)) : value.toFixed(1);
}

// A sentence with commands in backquotes, as nodes.
export function withCode(sentence) {
  return sentence.split("`").map((text, i) => (i % 2 ? el("code", { text }) : text));
}

// Characters that show nothing or only a gap: controls, all spaces, and those that are ignored by default.
const HIDDEN = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/gu;
const COMBINING = /^\p{M}/u; // would be drawn onto what is before the token
export const BIDI = /[\u202a-\u202e\u2066-\u2069]/;

// Characters that may be two columns wide: all beyond the alphabets and symbols of monospaced fonts.
const WIDE = /[\u1100-\u1dff\u2c00-\uffff\u{10000}-\u{10ffff}]|\p{Emoji_Presentation}/u;

const CITED = 60; // maximum length of quoted untrusted text

const widthOf = (point) => (WIDE.test(point) ? 2 : 1);

// Width of a text in columns.
export function lettersOf(text) {
  return Array.from(text).reduce((sum, point) => sum + widthOf(point), 0);
}

// A text cut to `limit` columns, with an ellipsis.
export function fitted(text, limit) {
  if (lettersOf(text) <= limit) return text;
  let [kept, free] = ["", limit - 1];
  for (const point of text) {
    free -= widthOf(point);
    if (free < 0) break;
    kept += point;
  }
  return `${kept}…`;
}

// Untrusted text, cut for use in a sentence.
export function cited(text) {
  return fitted(String(text), CITED);
}

// A token for labels and tables: spaces, line ends and control characters are made visible, long tokens are cut.
export function visible(text, limit = 18) {
  if (text === "") return "∅";
  const shown = text
    .replaceAll(" ", "␣")
    .replaceAll("\n", "⏎")
    .replaceAll("\t", "⇥")
    .replace(COMBINING, "◌$&")
    .replace(HIDDEN, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
  return fitted(shown, limit);
}

const WHOLE = 60; // characters of a token that is not cut

// What the name of a token may be, the shortest first; the last one has its id.
const NAMES = [
  ({ text, limit }) => visible(text, limit),
  ({ text, limit }) => cutInside(visible(text, WHOLE), limit),
  ({ text, limit }) => cutInside(visible(text, WHOLE), limit + 4),
  ({ text }) => visible(text, WHOLE),
  ({ text, token, limit }) => `${visible(text, limit)} #${token}`,
];

// Characters that look like others in most fonts, and those that they look like: Cyrillic and Greek letters, dashes, quotation marks.
const LIKE = [
  ["аеорсухіјѕԁԛԝАВЕЅІЈКМНОРСТУХЗ", "aeopcyxijsdqwABESIJKMHOPCTYX3"],
  ["οανρΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "oavpABEZHIKMNOPTYX"],
  ["‐‑‒–−‘’ʼ“”", `-----'''""`],
];
const LOOKS = new Map(LIKE.flatMap(([from, to]) => Array.from(from, (character, i) => [character, to[i]])));

// Texts that look the same have the same look.
function lookOf(text) {
  return Array.from(text.normalize("NFKC"), (character) => LOOKS.get(character) ?? character).join("");
}

// Names of tokens that are shown together, by key: different tokens never look the same. An entry has {key, token (its id), text, limit}.
export function distinctNames(entries) {
  const lengths = new Array(entries.length).fill(0);
  const nameOf = (entry, i) => NAMES[lengths[i]](entry);
  let longer;
  do {
    const looks = new Map();
    entries.forEach((entry, i) => {
      const look = lookOf(nameOf(entry, i));
      looks.set(look, [...(looks.get(look) ?? []), i]);
    });
    const alike = [...looks.values()].filter((places) => new Set(places.map((i) => entries[i].token)).size > 1).flat();
    longer = alike.filter((i) => lengths[i] < NAMES.length - 1);
    for (const i of longer) lengths[i] += 1;
  } while (longer.length);
  return new Map(entries.map((entry, i) => [entry.key, nameOf(entry, i)]));
}

// A text cut in its middle.
function cutInside(text, limit) {
  const points = Array.from(text);
  const half = (limit - 1) / 2;
  return points.length > limit ? [...points.slice(0, Math.ceil(half)), "…", ...points.slice(-Math.floor(half))].join("") : text;
}

// Names of tokens that are shown together, by id.
export function namesById(tokens, texts, limit = 18) {
  return distinctNames([...new Map(tokens.map((token, i) => [token, { key: token, token, text: texts[i], limit }])).values()]);
}

// Plotly interprets some tags in labels; this escapes them.
export function plotText(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("$", "&#36;");
}

// The value of a CSS variable of tokens.css in the current theme.
export function cssToken(name) {
  return getComputedStyle(document.body).getPropertyValue(name).trim();
}

export function isDark() {
  return document.body.classList.contains("dark");
}

export const PRESENTING = "ax-hide-controls"; // class of the body

export function presenting() {
  return document.body.classList.contains(PRESENTING);
}

export const EMBEDDED = "ax-embed"; // class of the body: only one panel is shown

export function embedded() {
  return document.body.classList.contains(EMBEDDED);
}

export function reducedMotion() {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}

// Listens to keys, without those that an input method takes to compose text.
export function onKey(target, listener, options) {
  target.addEventListener("keydown", (event) => isComposing(event) || listener(event), options);
}

// Whether a key belongs to an input method; some browsers report its last key with code 229 only.
export function isComposing(event) {
  return event.isComposing || event.keyCode === 229;
}
