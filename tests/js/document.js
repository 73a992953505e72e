// A minimal document for tests of functions that create elements.

class Element {
  constructor(tag) {
    Object.assign(this, { tag, attributes: {}, dataset: {}, children: [], style: { setProperty(name, value) { this[name] = value; } }, own: "" });
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  append(...nodes) {
    this.children.push(...nodes.map((node) => (node instanceof Element ? node : Object.assign(new Element("#text"), { own: String(node) }))));
  }
  prepend(...nodes) {
    this.children.unshift(...nodes);
  }
  after() {}
  addEventListener(kind, listener) {
    this.listeners = { ...this.listeners, [kind]: listener };
  }
  replaceChildren(...nodes) {
    this.children = [];
    this.append(...nodes);
  }
  get textContent() {
    return this.own + this.children.map((child) => child.textContent).join("");
  }
  set textContent(text) {
    this.own = text;
  }
  find(tag) {
    return this.children.flatMap((child) => [...(child.tag === tag ? [child] : []), ...child.find(tag)]);
  }
}

globalThis.document = { addEventListener() {}, createElement: (tag) => new Element(tag), createElementNS: (_, tag) => new Element(tag) };

// The parts of a card by name, created when they are asked for.
export function parts() {
  const made = {};
  return (name) => (made[name] ??= new Element("div"));
}
