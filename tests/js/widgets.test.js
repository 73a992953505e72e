// The bar of the page: Tab goes where the eye goes.

import assert from "node:assert/strict";
import test from "node:test";

import "./document.js";
import { seenOrder } from "../../assets/page/controls/widgets.js";

test("Run comes after the recorded races and before the buttons of the header", () => {
  const element = (name, box) => ({ name, closest: (selector) => selector === box });
  const [chip, present, more, run] = [element("chip", ".ax-chips"), element("present", ".ax-header-buttons"), element("more", ".ax-header-buttons"), element("run", "#ax-run-row")];
  assert.deepEqual(seenOrder([chip, present, more, run]).map(({ name }) => name), ["chip", "run", "present", "more"]);
  assert.deepEqual(seenOrder([chip, present]), [chip, present]); // a page without a server
});
