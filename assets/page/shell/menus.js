// Menus: when they close.

// A menu closes when something in it was pressed, and with Escape.
export function closeMenu(menu) {
  const close = () => {
    menu.open = false;
    menu.querySelector("summary").focus({ preventScroll: true });
  };
  // Before the entry acts: a dialog that it opens gives the focus back to the menu.
  menu.addEventListener("click", ({ target }) => target.closest(".ax-menu-list button") && close(), true);
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    event.preventDefault();
    close();
  });
}

// All menus close when something outside them is pressed or gets the focus.
export function closeMenusOutside() {
  const close = ({ target }) => {
    for (const menu of document.querySelectorAll(".ax-menu[open]")) if (!menu.contains(target)) menu.open = false;
  };
  for (const name of ["pointerdown", "focusin"]) document.addEventListener(name, close, true);
}
