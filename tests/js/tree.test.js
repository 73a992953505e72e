// The box of the draft tree, where there is no chart library to draw it.

import assert from "node:assert/strict";
import test from "node:test";

import { parts } from "./document.js";
import { createTree } from "../../assets/cards/tree/tree.js";

globalThis.window = { addEventListener() {} };
globalThis.document.body = { classList: { contains: () => false } };

test("before the tree is drawn, its keys and zoom buttons do nothing", () => {
  const part = parts();
  const zoomButtons = { fit: part("fit"), in: part("in"), out: part("out") };
  createTree(part("tree"), part("legend"), zoomButtons, {});
  for (const key of ["+", "-", "Escape", "ArrowRight"]) part("tree").listeners.keydown({ key, preventDefault: () => assert.fail(key) });
  for (const button of Object.values(zoomButtons)) button.listeners.click();
});
