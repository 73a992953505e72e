// Of several requests, only the latest one counts.

import assert from "node:assert/strict";
import test from "node:test";

import { createLatest } from "../../assets/page/core/latest.js";

test("a request is the latest one until another is made; counters are independent", () => {
  const [ask, other] = [createLatest(), createLatest()];
  const first = ask();
  assert.equal(first(), true);
  const second = ask();
  other();
  assert.deepEqual([first(), second()], [false, true]);
});
