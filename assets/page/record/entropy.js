// The entropy of the target's distribution at a choice, from the recorded logits at temperature 1.

const HALF = Math.log(2);

// Lower and upper bound in bits. Of all tokens that are not recorded, the sum of exp(v / T) is known at T = 0.5, 1 and 1.5. Its logarithm f is convex
// in 1/T, and these tokens add −exp(f)·f′ at T = 1, where f′ is between the slopes to 1.5 and to 0.5.
export function entropyBounds({ values, others }) {
  const known = values.reduce((sum, value) => sum - Math.exp(value) * value, 0);
  const [cold, at, warm] = others.map(Math.log);
  return [cold - at, 3 * (at - warm)].map((slope) => (known - (others[0] ? others[1] * slope : 0)) / HALF);
}

// Whether the target was undecided: its second token is at least half as probable as the first.
export function isFork(choice) {
  const [first, second] = choice?.logits?.values ?? [];
  return second >= first - HALF;
}
