// The files of the page, listed in the page itself: languages, the chart library and recorded races. They are loaded when they are needed.

import { el } from "./dom.js";

const packed = new Map();
let files = { languages: [], plotly: null, races: null, lessons: null, packed: false };

// languages: [{code, name, file or table}]; plotly: file; races: [{title, file, hidden: only for a lesson}], null on a page that contains its only
// race; lessons: their script, null on such a page;
// packed: whether the files are scripts with compressed text, because a page opened from disk cannot read other files.
export function pageFiles() {
  return files;
}

export function setFiles(list) {
  files = { ...files, ...list };
}

export async function textOf(file) {
  return files.packed ? unpacked(file) : fetched(file);
}

// Text of a script or style sheet of this page.
export function sourceOf(element) {
  const file = element.src || element.href;
  return file ? fetched(file) : element.textContent;
}

async function fetched(file) {
  const response = await fetch(file);
  if (!response.ok) throw new Error(`${file}: ${response.status}`);
  return response.text();
}

// Called by a script with compressed text: its name, and its text, gzipped and in base64.
export function takeFile(file, data) {
  packed.set(file, data);
}

async function unpacked(file) {
  if (!packed.has(file)) await loadScript({ src: file });
  const bytes = Uint8Array.from(atob(packed.get(file)), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

export function loadScript(attributes) {
  return new Promise((resolve, reject) => {
    const script = el("script", attributes);
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error(attributes.src)));
    document.head.append(script);
  });
}
