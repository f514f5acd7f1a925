/** Asks for what an action on alerts needs: a note, a name, the end of a snooze. */

import { may, needsLogin, whoAmI } from "../access.js";
import { handleAlert } from "../api.js";
import { plural } from "../format.js";
import {
  ACTIONS,
  MOST_SNOOZE_HOURS,
  allowedActions,
  commonActions,
  handleItems,
  outcomeWords,
  snoozeSeconds,
} from "../inbox.js";
import { button, field, openDialog } from "./forms.js";
import { el } from "./dom.js";
import { keepPersonName, personName } from "./person.js";

const SNOOZES = [
  { id: "1h", name: "1 hour" },
  { id: "8h", name: "8 hours" },
  { id: "tomorrow", name: "Until tomorrow, 8:00" },
  { id: "own", name: "Own time" },
];

/** Whether whoever looks at an alert may do something about it. */
export const mayHandle = (item) => may("alert.handle", item.project);

/** What may be done to an alert, where it stands and by whoever looks at it. */
export const actionsOn = (item) => (mayHandle(item) ? allowedActions(item) : []);

/** The same for several, each with those that it is about. */
export const actionsOnAll = (items) => commonActions(items.filter(mayHandle));

/** Opens the dialog for the items; `onDone(words)` is called with what came of it. */
export function openHandleDialog({ kind, items, onDone }) {
  const { name, hint } = ACTIONS[kind];
  const note = field({
    label: "Note (optional)",
    control: el("textarea", { rows: 2, maxlength: 2000, data: { testid: "handle-note" } }),
    wide: true,
  });
  const who = field({
    label: "Your name (optional)",
    control: el("input", {
      type: "text",
      maxlength: 100,
      autocomplete: "name",
      data: { testid: "handle-name" },
    }),
    hint: "For the others who read it; kept in this browser.",
  });
  const noteInput = note.root.querySelector("textarea");
  const nameInput = who.root.querySelector("input");
  // Who signed in has a name, which the others read.
  nameInput.value = needsLogin() ? whoAmI().name : personName();
  who.root.hidden = needsLogin();
  const snooze = kind === "snooze" ? snoozeChoice() : null;
  // Enter sends from the note as it does from every other field; a new line takes Shift.
  noteInput.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    noteInput.form.requestSubmit();
  });
  openDialog({
    title: items.length === 1 ? `${name}: ${items[0].title}` : `${name} ${plural(items.length, "alert")}`,
    confirm: name,
    testid: "handle-dialog",
    focus: snooze?.first ?? noteInput,
    children: [el("p", { class: "faint", text: hint }), snooze?.root ?? null, note.root, who.root],
    submit: async ({ say }) => {
      const seconds = snooze === null ? undefined : snooze.seconds();
      if (seconds === null) {
        say(`Say for how many hours, more than 0 and at most ${MOST_SNOOZE_HOURS}.`);
        return false;
      }
      const by = nameInput.value.trim();
      if (!needsLogin()) keepPersonName(by);
      const body = { by, note: noteInput.value.trim(), ...(seconds === undefined ? {} : { seconds }) };
      onDone(outcomeWords(kind, await handleItems(handleAlert, items, kind, body)));
      return true;
    },
  });
}

function snoozeChoice() {
  const hours = el("input", {
    type: "text",
    inputmode: "decimal",
    class: "hours",
    "aria-label": "Hours",
    placeholder: "hours",
    data: { testid: "snooze-hours" },
  });
  const radios = SNOOZES.map(({ id }, i) =>
    el("input", {
      type: "radio",
      name: "snooze",
      value: id,
      checked: i === 0,
      data: { testid: `snooze-${id}` },
    }),
  );
  hours.addEventListener("input", () => (radios[3].checked = true));
  const root = el(
    "fieldset",
    { class: "snoozes" },
    el("legend", { text: "Quiet for" }),
    SNOOZES.map(({ id, name }, i) =>
      el(
        "span",
        { class: "check" },
        el("label", { class: "check" }, radios[i], el("span", { text: name })),
        id === "own" ? hours : null,
      ),
    ),
  );
  return {
    root,
    first: radios[0],
    seconds: () => snoozeSeconds(radios.find((radio) => radio.checked)?.value, hours.value, new Date()),
  };
}

/** Buttons for what may be done, each of which opens the dialog. */
export function actionButtons(choices, { onDone, small = true }) {
  return choices.map(({ kind, items }) =>
    button(ACTIONS[kind].name, {
      small,
      title: ACTIONS[kind].hint,
      data: { testid: `do-${kind}`, focusKey: kind },
      on: { click: () => openHandleDialog({ kind, items: items(), onDone }) },
    }),
  );
}
