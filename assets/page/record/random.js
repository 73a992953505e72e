// Random numbers of sampling, as in aded/sampling/rng.py: each depends on the seed, the position and the token. Draws nothing.

const GOLDEN_GAMMA = 0x9e3779b97f4a7c15n;

const wrap = (value) => BigInt.asUintN(64, value);

// SplitMix64 of a 64-bit integer.
function splitmix64(value) {
  let z = wrap(value + GOLDEN_GAMMA);
  z = wrap((z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
  z = wrap((z ^ (z >> 27n)) * 0x94d049bb133111ebn);
  return z ^ (z >> 31n);
}

// 64-bit key of a seed and an absolute position, both BigInt.
export function keyOf(seed, position) {
  return splitmix64(wrap(splitmix64(seed) + position));
}

// Uniform random number in (0, 1) of a token and a key.
export function uniform(key, token) {
  return (Number(splitmix64(wrap(key + BigInt(token) * GOLDEN_GAMMA)) >> 12n) + 0.5) * 2 ** -52;
}

// The random number of a token at the i-th choice of a step; null if the page cannot compute it, because the seed is too large.
export function uniformAt({ seed }, { position }, i, token) {
  return Number.isSafeInteger(seed) ? uniform(keyOf(BigInt(seed), BigInt(position + 1 + i)), token) : null;
}
