// The rows of the lattice's table: the tokens of each head that are most probable before or after rescoring.

// One list per head, of at most `most` tokens {token, text, head, rescored, best}, the highest first; `rescored` is null without rescoring, and
// `best` marks the most probable token.
export function columnsOf(lattice, most) {
  return lattice.map(({ tokens, texts, heads, rescored }) => {
    const known = tokens.map((token, i) => ({ token, text: texts[i], head: heads[i], rescored: rescored.length ? rescored[i] : null }));
    const weight = ({ head, rescored: after }) => after ?? head;
    const sorted = known.sort((a, b) => weight(b) - weight(a)).slice(0, most);
    return sorted.map((one, i) => ({ ...one, best: i === 0 }));
  });
}

// Whether any head was rescored.
export function isRescored(lattice) {
  return lattice.some(({ rescored }) => rescored.length > 0);
}
