// Why the text of a lossless method has the target's distribution, with the numbers of the step; and what a lossy method gives up.

import { setText } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { losslessText, verificationKind } from "../../page/record/acceptance.js";

export function mount({ part, subscribe }) {
  subscribe("quiet", ({ view }) => [view.recorded], ({ view }) => renderGuarantee(part, view.recorded, view.header));
}

function renderGuarantee(part, step, header) {
  setText(part("walk-why"), say(header.lossless ? "guarantee.title" : "guarantee.lossy"));
  setText(part("walk-guarantee"), say(`guarantee.${header.lossless ? verificationKind(step, header) : "typical"}`));
  const sum = losslessText(step, header);
  setText(part("walk-lossless"), sum);
  part("walk-lossless").hidden = !sum;
}
