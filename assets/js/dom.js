// Small helpers: elements, numbers, and tokens made visible. Text enters the page through textContent alone.

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

export function toggleClass(node, name, on) {
  if (node.classList.contains(name) !== on) node.classList.toggle(name, on);
}

const LARGE = 1e9;

// A number with so many digits behind the point; one that would take a line of its own stands as a power of ten.
export function fixed(value, digits) {
  if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
  return Math.abs(value) < LARGE ? value.toFixed(digits) : value.toExponential(2);
}

export function number(value, digits = 2) {
  return value === null || value === undefined ? "–" : fixed(value, digits);
}

// Three digits for what is small, two for the rest.
export function small(value) {
  return number(value, Math.abs(value) < 0.995 ? 3 : 2);
}

export function probability(value) {
  return value > 0 && value < 0.005 ? "<0.01" : number(value);
}

export function milliseconds(seconds) {
  const ms = seconds * 1000;
  return ms === 0 ? "0 ms" : ms < 1 ? `${ms.toFixed(2)} ms` : ms < 100 ? `${ms.toFixed(1)} ms` : ms < 1000 ? `${Math.round(ms)} ms` : `${fixed(seconds, 2)} s`;
}

// Bytes in decimal units, as disks are sold.
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

// A sentence whose commands stand between backquotes, as nodes.
export function withCode(sentence) {
  return sentence.split("`").map((text, i) => (i % 2 ? el("code", { text }) : text));
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: what cannot be seen is looked for here
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
export const BIDI = /[\u202a-\u202e\u2066-\u2069]/;

// Characters that may take the room of two: all beyond the alphabets and signs that monospaced fonts hold.
const WIDE = /[\u1100-\u1dff\u2c00-\uffff\u{10000}-\u{10ffff}]|\p{Emoji_Presentation}/u;

const CITED = 60; // letters of a stranger's text that are said again

const widthOf = (point) => (WIDE.test(point) ? 2 : 1);

// How many letters wide a text is.
export function lettersOf(text) {
  return Array.from(text).reduce((sum, point) => sum + widthOf(point), 0);
}

// A text no wider than so many letters; what is cut ends in dots.
export function fitted(text, limit) {
  if (lettersOf(text) <= limit) return text;
  let [kept, room] = ["", limit - 1];
  for (const point of text) {
    room -= widthOf(point);
    if (room < 0) break;
    kept += point;
  }
  return `${kept}…`;
}

// A stranger's text as a sentence says it again: no longer than can be read.
export function cited(text) {
  return fitted(String(text), CITED);
}

// A token for labels and tables: blanks, line ends and control characters can be seen, long ones are cut.
export function visible(text, limit = 18) {
  if (text === "") return "∅";
  const shown = text
    .replaceAll(" ", "␣")
    .replaceAll("\n", "⏎")
    .replaceAll("\t", "⇥")
    .replace(HIDDEN, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
  return fitted(shown, limit);
}

// Plotly reads a few tags in its labels; escaped, they are text.
export function plotText(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll("$", "&#36;");
}

// The value of a token of tokens.css, as it stands in the theme of the moment.
export function cssToken(name) {
  return getComputedStyle(document.body).getPropertyValue(name).trim();
}

export function isDark() {
  return document.body.classList.contains("dark");
}

export function reducedMotion() {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}
