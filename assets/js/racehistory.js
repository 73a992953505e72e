// The last races on screen as JSON lines, for the browser's Back button.

const MAX_RACES = 4;

// How a link names a race: a recorded one by title, a live race by id, an opened file by name.
export function raceIdOf({ id, source, title }) {
  return { race: source === "recorded" ? title : null, run: source === "run" ? id : null, file: source === "file" ? title : null };
}

// Whether the view of a link is of this race, or names none.
export function isRace({ race, run, file }, shown) {
  const here = raceIdOf(shown);
  if (race || file) return (race || null) === here.race && (file || null) === here.file;
  return !run || run === here.run;
}

export function createRaceHistory() {
  const texts = new Map();

  function keep(race, text) {
    const key = JSON.stringify(raceIdOf(race));
    texts.delete(key);
    texts.set(key, text);
    if (texts.size > MAX_RACES) texts.delete(texts.keys().next().value);
  }

  // The text of the race that a view names; undefined if it is not kept.
  const find = ({ race, run, file }) => texts.get(JSON.stringify({ race: race || null, run: run || null, file: file || null }));

  return { keep, find };
}
