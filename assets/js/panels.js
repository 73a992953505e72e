// Content of a saved page: the markup of the panels before anything was drawn into it, and their values.

const pristine = {};
const values = {};

export function keepMarkup(name, element) {
  pristine[name] = element.firstElementChild.cloneNode(true);
}

export function keptMarkup() {
  return { ...pristine };
}

// `value` returns the value of a panel, a JSON string, at the time of saving.
export function keepValue(name, value) {
  values[name] = value;
}

export function keptValue(name) {
  return values[name] ? values[name]() : "";
}
