// Files before they are sent.

import assert from "node:assert/strict";
import test from "node:test";

import { faultOfFile } from "../../assets/js/upload.js";
import { tables } from "./words.js";

test("a file that is no JSON or too large is refused before it is sent, by name and with the remedy", () => {
  assert.equal(faultOfFile({ name: "race.JSON", size: 10 }, 100), null);
  assert.deepEqual(faultOfFile({ name: "race.json", size: 17 << 20 }, 16 << 20), [["notice.large", { megabytes: 16 }]]);
  const [[key, { name }], [remedy]] = faultOfFile({ name: `${"x".repeat(300)}.txt`, size: 1 }, 100);
  assert.ok(key in tables.en && remedy in tables.en && name.length === 60);
});
