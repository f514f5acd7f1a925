/** Parts of forms: fields with their fault, choices, dialogs. */

import { el, setAttribute, setText } from "./dom.js";

let count = 0;

/**
 * A list to choose from: `options` are `[{id, name}]`.
 * @param {any} options
 * @param {Record<string, any>} [props]
 */
export function choice(options, { value = "", ...props } = {}) {
  const node = el(
    "select",
    props,
    options.map(({ id, name }) => el("option", { value: id, text: name })),
  );
  node.value = value;
  return node;
}

/** Changes the options and keeps what is chosen; one that is not among them any more is added, so that it is seen. */
export function setOptions(node, options) {
  const value = node.value;
  const shown =
    options.some(({ id }) => id === value) || value === ""
      ? options
      : [...options, { id: value, name: value }];
  node.replaceChildren(...shown.map(({ id, name }) => el("option", { value: id, text: name })));
  node.value = value;
}

/** A control under its label, with a hint and room for what is wrong. `setError("")` takes the fault away. */
export function field({ label, control, hint = "", wide = false }) {
  count += 1;
  const id = `field-${count}`;
  const fault = el("span", { class: "field-error", id: `${id}-error`, role: "alert", hidden: true });
  const note = el("span", { class: "field-hint", id: `${id}-hint`, text: hint, hidden: hint === "" });
  control.id = id;
  setAttribute(control, "aria-describedby", `${id}-hint ${id}-error`);
  const root = el(
    "div",
    { class: wide ? "field field-wide" : "field" },
    el("label", { for: id, text: label }),
    control,
    note,
    fault,
  );
  return {
    root,
    setHint(text) {
      setText(note, text);
      note.hidden = text === "";
    },
    setError(text) {
      setText(fault, text);
      fault.hidden = text === "";
      setAttribute(control, "aria-invalid", text === "" ? null : "true");
    },
  };
}

/**
 * Several controls as fields, `{name: control}`: `values` starts them, `labels` are `{name: [label, hint]}`.
 * `showErrors({field: message})` answers false, for "not saved"; what belongs to no field is under `form`.
 */
export function fieldSet(controls, { values, labels, wide = [] }) {
  for (const [name, control] of Object.entries(controls)) control.value = values[name];
  const fields = Object.fromEntries(
    Object.entries(controls).map(([name, control]) => {
      const [label, hint] = labels[name];
      return [name, field({ label, hint, control, wide: wide.includes(name) })];
    }),
  );
  const rest = el("p", { class: "field-error", role: "alert", hidden: true });
  return {
    fields,
    nodes: Object.values(fields).map((each) => each.root),
    rest,
    names: Object.keys(controls),
    texts: () => Object.fromEntries(Object.entries(controls).map(([name, { value }]) => [name, value])),
    showErrors(errors) {
      for (const [name, each] of Object.entries(fields)) each.setError(errors[name] ?? "");
      setText(rest, errors.form ?? "");
      rest.hidden = errors.form === undefined;
      controls[Object.keys(fields).find((name) => errors[name] !== undefined)]?.focus();
      return false;
    },
  };
}

/**
 * A box to tick with its words behind it.
 * @param {string} text
 * @param {Record<string, any>} [props]
 */
export function checkbox(text, { checked = false, ...props } = {}) {
  const input = el("input", { type: "checkbox", ...props });
  input.checked = checked;
  return { input, root: el("label", { class: "check" }, input, el("span", { text })) };
}

/**
 * @param {string} text
 * @param {Record<string, any>} [props]
 */
export function button(text, { primary = false, small = false, danger = false, on, ...props } = {}) {
  const classes = [
    "button",
    primary ? "button-primary" : "",
    small ? "button-small" : "",
    danger ? "button-danger" : "",
  ];
  return el("button", { class: classes.filter(Boolean).join(" "), type: "button", ...props, on, text });
}

/**
 * A dialog above the page. `submit` is called with the form's submission and may return a promise; the dialog
 * closes when it comes back true, and stays, with its fault shown, otherwise. What only tells something
 * (`isNews`) cannot be cancelled.
 * @param {Record<string, any>} dialog
 */
export function openDialog({
  title,
  children,
  confirm,
  danger = false,
  testid,
  submit,
  focus,
  isNews = false,
}) {
  count += 1;
  const id = `dialog-${count}`;
  const fault = el("p", { class: "field-error", role: "alert", hidden: true });
  const done = el("button", {
    class: danger ? "button button-danger" : "button button-primary",
    type: "submit",
    text: confirm,
    data: { testid: "dialog-confirm" },
  });
  const cancel = isNews ? null : button("Cancel", { on: { click: () => root.close() } });
  const form = el(
    "form",
    { class: "dialog-form", novalidate: true },
    el("h2", { id, text: title }),
    children,
    fault,
    el("div", { class: "dialog-actions" }, cancel, done),
  );
  const root = el("dialog", { class: "dialog", "aria-labelledby": id, data: { testid } }, form);
  onSubmit(form, { done, fault, submit, close: () => root.close() });
  showAbovePage(root, focus ?? done);
}

/** One submission at a time; what goes wrong is said in the form. */
function onSubmit(form, { done, fault, submit, close }) {
  const say = (text) => {
    setText(fault, text);
    fault.hidden = text === "";
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (done.disabled) return;
    say("");
    done.disabled = true;
    try {
      if (await submit({ say })) close();
    } catch (error) {
      say(error.message);
    } finally {
      done.disabled = false;
    }
  });
}

function showAbovePage(root, focus) {
  const before = document.activeElement;
  // A page that is left takes its dialog with it.
  const leave = () => root.close();
  window.addEventListener("hashchange", leave);
  root.addEventListener("close", () => {
    window.removeEventListener("hashchange", leave);
    root.remove();
    // What opened it may be gone with what was done.
    if (before?.isConnected !== true) document.getElementById("main").focus({ preventScroll: true });
  });
  document.body.append(root);
  root.showModal();
  focus.focus();
}

/** Asks before something is lost. */
export function confirmLoss({ title, text, confirm, action }) {
  openDialog({
    title,
    confirm,
    danger: true,
    testid: "confirm",
    children: [el("p", { text })],
    submit: async () => {
      await action();
      return true;
    },
  });
}
