// Agreement of the parts of the matrix with the target at each step's root. Pure numbers.

export const MEASURES = ["total_variation", "top_1", "top_4", "top_12"];

// Values of one part of the matrix, one entry per step; null if the step has none.
export function values(steps, who, measure) {
  return steps.map((step) => {
    const found = step.agreement.find((agreement) => agreement.who === who);
    return found ? found[measure] : null;
  });
}

// Moving average over the last `size` entries; null entries are ignored.
export function movingMean(list, size) {
  return list.map((_, i) => mean(list.slice(Math.max(0, i - size + 1), i + 1)));
}

export function mean(list) {
  const known = list.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}
