// Checks of files before they are sent.

import assert from "node:assert/strict";
import test from "node:test";

import { errorOfFile } from "../../assets/js/upload.js";
import { tables } from "./words.js";

test("a file that is not JSON or too large is rejected before it is sent, with its name and a remedy", () => {
  assert.equal(errorOfFile({ name: "race.JSON", size: 10 }, 100), null);
  assert.deepEqual(errorOfFile({ name: "race.json", size: 17 << 20 }, 16 << 20), [["notice.large", { megabytes: 16 }]]);
  const [[key, { name }], [remedy]] = errorOfFile({ name: `${"x".repeat(300)}.txt`, size: 1 }, 100);
  assert.ok(key in tables.en && remedy in tables.en && name.length === 60);
});
