// What the page is about, in one line beside the key of the texts, until the visitor closes it or takes the tour.

import { pageFiles } from "../../page/core/files.js";
import { loadItem, storeItem } from "../../page/core/storage.js";

export function createWelcome(part) {
  const box = part("welcome");
  box.hidden = !pageFiles().lessons || ["welcome", "tour"].some((name) => loadItem(name) !== null);

  function close() {
    storeItem("welcome", "closed");
    box.hidden = true;
  }

  for (const name of ["tour", "lessons"]) {
    part(`welcome-${name}`).addEventListener("click", () => {
      close();
      document.querySelector(`.ax-header [data-part="${name}"]`).click();
    });
  }
  part("welcome-close").addEventListener("click", () => {
    box.previousElementSibling.focus({ preventScroll: true });
    close();
  });
}
