// Which race is on screen: one of the server, of a file, of a link, a recorded one, or an earlier one of this tab.

import { emit, on } from "../core/events.js";
import { pageFiles } from "../core/files.js";
import { createLatest } from "../core/latest.js";
import { createKeeper, createRaceHistory, findRace, isRace } from "../record/racehistory.js";
import { readLines, stoppedLines } from "../record/record.js";
import { createRecorded } from "../record/recorded.js";
import { turnNote } from "./link.js";

export function createOpener(state, player, showTab) {
  const raceHistory = createRaceHistory();
  const recorded = createRecorded((text) => open(text));
  const keeper = createKeeper();
  let lines = ""; // the race on screen
  const ask = createLatest(); // a live race that is found after another race was asked for is not opened

  // `whole`: whether a live race that has ended came to its end.
  function open(text, whole = true) {
    const before = state.race.running;
    lines = text;
    player.open(readLines(state.race, lines));
    if (state.race.id !== null) raceHistory.keep(state.race, lines);
    if (state.race.source === "run" && (state.race.running || before)) keeper.copy(state.race, lines, state.race.running || !whole);
    if (state.race.running !== before) emit("running", state.race.running ? state.race.id : null);
  }

  // Another race was asked for: one that is still being loaded or looked for is not opened.
  function cancel() {
    ask();
    recorded.cancel();
  }

  // Shows a race from a file.
  function show(text) {
    cancel();
    open(text);
    emit("fileOpened", state.race);
    emit("notice", { kind: "", messages: [], fraction: null });
  }

  // The connection to a running race is lost: it ends at the last step that arrived, and the browser keeps it as a part.
  function end() {
    if (state.race.running) open(stoppedLines(lines), false);
  }

  // A live race that is no longer in this tab.
  async function reopen(view) {
    const isLatest = ask();
    const found = await findRace(view.run);
    if (!isLatest() || state.race.running) return;
    if (found === null) return emit("linkErrors", [["link.gone", {}], ...turnNote(view)]);
    if (found.partial !== null) emit("linkErrors", [["link.partial", { count: found.partial }], ...turnNote(view)]);
    open(found.lines);
    player.show(view);
  }

  // Opens the view of a link: the race on screen, an earlier one, a recorded one, or one that is still to be run. At first, some
  // race is opened.
  function openView(view) {
    const other = !state.race.running && !isRace(view, state.race);
    const text = view.text ?? (other && raceHistory.find(view));
    cancel();
    if (text) open(text);
    else if (other && view.race) recorded.open(view.race, { shown: shownInstead() });
    else if (other && view.again && view.run) reopen(view);
    showTab(view.tab ?? state.tab);
    if (state.race.id === null && !recorded.loading()) recorded.open();
    player.show(view);
  }

  // The title of the race on screen, or of the one that is opened at first.
  function shownInstead() {
    const title = state.race.id === null ? pageFiles().races?.[0]?.title : state.race.title;
    return title ? { say: `title.${title}`, otherwise: title } : { say: "link.live" };
  }

  // `props.value`: the race of the server, or of a saved page; `watch` reports its changes.
  function listen(props, watch) {
    on("openView", openView);
    on("raceChosen", (title) => {
      cancel();
      recorded.open(title);
    });
    on("goto", ({ run, step }) => player.setRun(run, step));
    on("cut", end);
    const leave = () => state.race.source === "run" && keeper.leave(state.race, lines);
    window.addEventListener("pagehide", leave);
    document.addEventListener("visibilitychange", leave); // a hidden page may be closed without another event
    watch("value", () => {
      cancel();
      open(props.value);
    });
    if (props.value) open(props.value);
  }
  return { listen, show, lines: () => lines };
}
