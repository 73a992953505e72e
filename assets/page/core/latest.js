// The latest request wins: answers that arrive after another request was made are dropped.

// Returns a function that counts a request, and returns a function that tells whether it is still the latest.
export function createLatest() {
  let count = 0;
  return () => {
    count += 1;
    const own = count;
    return () => own === count;
  };
}
