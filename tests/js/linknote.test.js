// What is said about a copied link: only beside the race that it opens.

import assert from "node:assert/strict";
import test from "node:test";

import "./document.js";
import { say } from "../../assets/page/core/words.js";
import { emit } from "../../assets/page/core/events.js";
import { copyLink, createCopied } from "../../assets/page/shell/linknote.js";
import "./words.js";

const [ONE, OTHER] = ["1111111111111111", "2222222222222222"].map((run) => ({ race: null, run, file: null }));
Object.defineProperty(globalThis, "navigator", { value: { clipboard: { writeText: async () => {} } } });

test("that a link was copied is not said beside another race", () => {
  const status = document.createElement("span");
  const sayCopied = createCopied(status);
  emit("view", { ...ONE, step: 1 });
  sayCopied("link.copied");
  emit("view", { ...ONE, step: 2 });
  assert.equal(status.textContent, say("link.copied"));
  emit("view", OTHER);
  assert.equal(status.textContent, "");
});

for (const [when, shown, said] of [["on screen", true, ["link.copied", "link.copied.memory"]], ["no longer on screen", false, []]]) {
  test(`how long a link opens a race that is ${when}`, async () => {
    const messages = [];
    const address = { text: () => "http://localhost/", race: () => () => shown, warnings: () => [], lasting: async () => [["link.copied.memory", {}]] };
    await copyLink(address, (key) => messages.push(key), { add: (list) => messages.push(...list.map(([key]) => key)), showLink() {} });
    assert.deepEqual(messages, said);
  });
}
