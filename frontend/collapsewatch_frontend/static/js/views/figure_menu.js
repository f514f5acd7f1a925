/** The menu of a figure: full screen, pictures, numbers, link. */

import { el } from "./dom.js";
import { icon } from "./icons.js";

let menuCount = 0;

/**
 * A button that opens a menu; `items` are `{text, icon, testid, run, isFor?}`. Arrow keys move in it, Escape closes it
 * and gives the focus back.
 */
export function figureMenu(title, items) {
  menuCount += 1;
  const id = `figure-menu-${menuCount}`;
  const list = el("div", { class: "menu", id, role: "menu", "aria-label": title, hidden: true });
  const button = el(
    "button",
    {
      class: "menu-button",
      type: "button",
      "aria-label": `${title}: pictures, numbers and more`,
      title: "Pictures, numbers and more",
      "aria-haspopup": "menu",
      "aria-expanded": "false",
      "aria-controls": id,
      data: { testid: "figure-menu" },
    },
    icon("more"),
  );
  const root = el("span", { class: "figure-menu" }, button, list);
  const entries = items.map((item) => menuItem(item, () => close(true)));
  list.append(...entries);

  const onOutside = (event) => {
    if (!root.contains(event.target)) close(false);
  };
  function open() {
    list.hidden = false;
    items.forEach(({ isFor }, i) => (entries[i].hidden = isFor?.() === false));
    button.setAttribute("aria-expanded", "true");
    document.addEventListener("pointerdown", onOutside);
    entries.find((entry) => !entry.hidden)?.focus();
  }
  function close(withFocus) {
    list.hidden = true;
    button.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", onOutside);
    if (withFocus) button.focus();
  }
  button.addEventListener("click", () => (list.hidden ? open() : close(true)));
  root.addEventListener("keydown", (event) => {
    if (list.hidden) return;
    if (event.key === "Escape") {
      event.stopPropagation();
      close(true);
    }
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (way === undefined) return;
    event.preventDefault();
    const shown = entries.filter((entry) => !entry.hidden);
    const at = shown.indexOf(document.activeElement);
    shown[(at + way + shown.length) % shown.length].focus();
  });
  root.addEventListener("focusout", (event) => {
    if (!list.hidden && event.relatedTarget !== null && !root.contains(event.relatedTarget)) close(false);
  });
  return { root, button, destroy: () => close(false) };
}

function menuItem({ text, icon: name, testid, run }, done) {
  const label = el("span", { text });
  return el(
    "button",
    {
      class: "menu-item",
      type: "button",
      role: "menuitem",
      tabindex: "-1",
      data: { testid },
      on: {
        click: () => {
          done();
          run();
        },
      },
    },
    icon(name, 14),
    label,
  );
}
