// Races that were on screen, so that the browser's Back has them again: the last few, as JSON lines.

const MOST = 4;

// What a link calls a race: a recorded one by its title, a live run by its id, an opened file by its name.
export function placeOf({ id, source, title }) {
  return { race: source === "recorded" ? title : null, run: source === "run" ? id : null, file: source === "file" ? title : null };
}

// Whether a link's view names this race, or none.
export function isPlace({ race, run, file }, shown) {
  const here = placeOf(shown);
  if (race || file) return (race || null) === here.race && (file || null) === here.file;
  return !run || run === here.run;
}

export function createPlaces() {
  const texts = new Map();

  function keep(race, text) {
    const place = JSON.stringify(placeOf(race));
    texts.delete(place);
    texts.set(place, text);
    if (texts.size > MOST) texts.delete(texts.keys().next().value);
  }

  // The text of the race that a view names; undefined where it is gone, or was never there.
  const find = ({ race, run, file }) => texts.get(JSON.stringify({ race: race || null, run: run || null, file: file || null }));

  return { keep, find };
}
