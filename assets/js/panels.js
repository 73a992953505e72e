// The panels' markup as it was before anything was drawn into it: what a file of its own begins with.

const pristine = {};

export function keepMarkup(name, element) {
  pristine[name] = element.firstElementChild.cloneNode(true);
}

export function keptMarkup() {
  return { ...pristine };
}
