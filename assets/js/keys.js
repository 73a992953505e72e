// Keys, without those that an input method takes to compose text.

export function onKey(target, listener, options) {
  target.addEventListener("keydown", (event) => isComposing(event) || listener(event), options);
}

// Whether a key belongs to an input method; some browsers report its last key with code 229 only.
export function isComposing(event) {
  return event.isComposing || event.keyCode === 229;
}
