// The candidates of a beam search by level, and which of them the second ranking removed.

import { probability, visible } from "../../page/core/dom.js";
import { say } from "../../page/core/words.js";
import { offerExport, registerExport } from "../../page/export/exports.js";
import { renderColumns, shareCell } from "../../page/plot/columns.js";

export function mount({ part, subscribe }) {
  offerExport("levels", { group: "step", title: "levels.title", at: part("levels-card"), table: true });
  subscribe("quiet", ({ view }) => [view.recorded], ({ view: { recorded } }) => renderLevels(part, recorded.levels ?? []));
}

export function renderLevels(part, levels) {
  registerExport("levels", { place: () => (levels.length ? part("levels-rows") : null), table: () => levelsTable(levels) });
  const headings = levels.map(({ kept, candidates }, i) => say("levels.level", { depth: i + 1, kept: kept.filter(Boolean).length, count: candidates }));
  renderColumns(part, "levels", headings, levels.map(cellsOf));
}

function cellsOf({ texts, parent_texts: parents, cumulative, kept }) {
  return texts.map((text, i) => shareCell(cumulative[i], `${visible(parents[i])} → ${visible(text)}`, probability(cumulative[i]), { "data-kept": String(kept[i]), title: say(kept[i] ? "levels.kept" : "levels.cut") }));
}

function levelsTable(levels) {
  const rows = levels.flatMap(({ tokens, texts, parent_texts: parents, cumulative, kept }, i) => tokens.map((token, k) => [i + 1, parents[k], token, texts[k], cumulative[k], String(kept[k])]));
  return [["level", "parent", "token", "text", "cumulative probability", "kept"], ...rows];
}
