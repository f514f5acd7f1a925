/** Shows something this once: a link or a key that is stored nowhere. */

import { el } from "./dom.js";
import { button, openDialog } from "./forms.js";
import { icon } from "./icons.js";
import { showNote } from "./toasts.js";

/** Opens the dialog after the one before it has closed, so that the focus comes back to where it was. */
export function showOnce({ title, text, label, value, testid, note = "" }) {
  setTimeout(() => {
    const input = el("input", {
      type: "text",
      readonly: true,
      autocomplete: "off",
      "aria-label": label,
      data: { testid: "once-value" },
      on: { focus: () => input.select() },
    });
    input.value = value;
    const copy = button("", { data: { testid: "once-copy" }, on: { click: () => copyText(input, label) } });
    copy.replaceChildren(icon("copy", 14), el("span", { text: "Copy" }));
    openDialog({
      title,
      confirm: "Done",
      isNews: true,
      testid,
      focus: input,
      children: [
        el("p", { text }),
        el("div", { class: "share-address" }, input, copy),
        note === "" ? null : el("p", { class: "faint", text: note }),
      ],
      submit: async () => true,
    });
  });
}

async function copyText(input, label) {
  try {
    await navigator.clipboard.writeText(input.value);
    showNote(`${label} copied.`);
  } catch {
    input.focus();
    showNote("Copying was refused; it is selected.");
  }
}
