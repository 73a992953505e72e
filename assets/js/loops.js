// Whether a text repeats itself at its end: a loop of a small model, which any method drafts easily.

const MOST = 48; // longest period in tokens
const TIMES = 3; // repetitions that make a loop
const LEAST = 36; // tokens that a loop covers at least

// The number of tokens after which the text only repeats its last `period` tokens; null if it does not.
export function loopStart(tokens) {
  for (let period = 1; period <= MOST; period++) {
    let start = tokens.length - period;
    while (start > 0 && tokens[start - 1] === tokens[start - 1 + period]) start--;
    if (tokens.length - start >= Math.max(TIMES * period, LEAST)) return start + period;
  }
  return null;
}
