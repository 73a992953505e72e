// The draft tree, and its search simulation by simulation.

import { presenting, setText, small } from "../../page/core/dom.js";
import { emit } from "../../page/core/events.js";
import { offerExport } from "../../page/export/exports.js";
import { say } from "../../page/core/words.js";
import { column, priorTerm } from "../../page/record/record.js";
import { markedNode } from "../../page/record/stepview.js";
import { scoreColours } from "./scorecolours.js";
import { createSearch } from "./searchplayer.js";
import { createTree } from "./tree.js";

export function mount({ part, state, set, subscribe, peek, pick }) {
  offerExport("tree", { group: "step", title: "tree.label", at: part("tree"), picture: true });
  const box = part("tree");
  const zoomButtons = { fit: part("tree-fit"), in: part("tree-in"), out: part("tree-out") };
  const tree = createTree(box, part("tree-legend"), zoomButtons, { onHover: peek, onPick: pick, onPaint: (step, texts) => setText(part("visits-key"), visitsKey(step, texts)) });
  const onScreen = () => state.race.runs[state.run]?.steps[state.step];
  const search = createSearch(part, onScreen, (moment) => {
    set({ moment });
    emit("action", "search");
  });
  subscribe("quiet", ({ view, moment }) => [view.recorded, moment, search.isPlaying()], ({ view: { recorded, header }, moment }) => {
    search.render(recorded, header, moment);
    part("tree-card").dataset.searching = String(moment !== null);
  });
  subscribe("quiet", ({ view }) => [view.recorded.tree.tokens.length > 1], ({ view: { recorded } }) => {
    part("bonus-key").hidden = recorded.tree.tokens.length === 1;
    part("plain-key").hidden = recorded.tree.tokens.length > 1;
  });
  subscribe("quiet", ({ view, chartError }) => [view.recorded, chartError], (state) => setText(part("hidden"), hiddenText(state)));
  const drawable = ({ view, dark, Plotly }) => (Plotly && box.clientWidth ? [view.searched, view.layout, dark, presenting(), box.clientWidth, box.clientHeight] : null);
  subscribe("quiet", drawable, (state) => {
    const { view: { searched, layout, recorded, header }, Plotly } = state;
    const colours = scoreColours(searched, recorded, header.method_settings);
    renderColourKey(part, colours, header);
    tree.draw(Plotly, searched, layout, colours, priorTerm(header), markedNode(state), isPointed(state));
  });
  subscribe("quiet", (state) => [state.view.searched, markedNode(state), isPointed(state)], (state) => tree.select(markedNode(state), isPointed(state)));
}

// Whether the marked node is the one below the pointer.
const isPointed = ({ hover }) => hover !== null;

// Why the tree, or a part of it, is not drawn.
function hiddenText({ view: { run, recorded, at }, chartError }) {
  if (chartError) return say("error.picture", { reason: chartError });
  const { hidden } = run.layouts[at];
  return hidden ? say("step.hidden", { count: hidden, total: recorded.tree.tokens.length }) : "";
}

// What the sizes and the numbers in the picture mean, without numbers if there are none.
function visitsKey({ tree, scores }, { numbered, scored }) {
  if (column(tree, "visits").every((visits) => visits === null)) return "";
  const visits = say(numbered ? "tree.visits" : "tree.visits.size");
  return scores && scored ? say("tree.visits.puct", { visits }) : visits;
}

// What the colour of the nodes means, and the highest value of the step.
function renderColourKey(part, colours, header) {
  part("colour-key").hidden = !colours;
  if (!colours) return;
  const term = colours.measure === "prior" ? priorTerm(header) : colours.measure;
  setText(part("colour-name"), term === "score" ? say("tree.colour", { measure: "PUCT" }) : say("tree.colour.root", { measure: say(`fact.${term}`) }));
  setText(part("colour-top"), small(colours.top));
}
