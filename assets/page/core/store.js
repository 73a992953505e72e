// A small store: one object of values, and subscribers that are called when a value that they select has changed.

// `changed` is called after every change, and decides when the subscribers are notified.
export function createStore(values, changed) {
  const subscribers = [];

  function set(changes) {
    Object.assign(values, changes);
    changed();
  }

  // Calls `draw` with all values when one of those that `select` returns has changed; `select` returns null while there is nothing to draw.
  // Subscribers of one group are notified together, in the order of their subscription.
  function subscribe(group, select, draw) {
    subscribers.push({ group, select, draw, seen: null });
  }

  function notify(group) {
    for (const one of subscribers) {
      const now = one.group === group ? one.select(values) : null;
      if (now === null || (one.seen && areSame(now, one.seen))) continue;
      one.seen = now;
      one.draw(values);
    }
  }

  // Every subscriber is called at the next notification, as after a change of language.
  function forget() {
    for (const one of subscribers) one.seen = null;
  }
  return { set, subscribe, notify, forget };
}

function areSame(one, other) {
  return one.length === other.length && one.every((value, i) => Object.is(value, other[i]));
}

// A function that remembers its last result, and returns it while the arguments are the same.
export function remembered(make) {
  let last = null;
  return (...values) => {
    if (!last || !areSame(values, last.values)) last = { values, result: make(...values) };
    return last.result;
  };
}
