// Lists that Escape has closed open again with a click: they open by themselves only when they get the focus, which they still have.

export function reopenLists(root) {
  root.addEventListener("pointerdown", ({ target }) => {
    if (!(target instanceof HTMLInputElement)) return;
    const closed = document.activeElement === target && target.getAttribute("aria-expanded") === "false";
    if (closed) target.dispatchEvent(new FocusEvent("focus"));
  });
}
