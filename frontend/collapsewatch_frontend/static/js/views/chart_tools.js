/** The bar above the charts of a page: what holds for all of them. */

import { formatStep } from "../format.js";
import { MOST_SMOOTHING } from "../smoothing.js";
import { el, setText } from "./dom.js";
import { icon } from "./icons.js";

/** Redrawing waits until a hand that moves a slider rests this long. */
const REST_MS = 60;

/**
 * Builds the bar for a `view` (chart_view.js): smoothing, logarithmic values, steps or times, the stretch of
 * steps. `onChange` is called when anything of it changed, for the address of the page.
 */
export function chartTools({ view, onChange = () => {}, axis = axisControl(view) }) {
  const smoothing = smoothingControl(view);
  const log = el("input", {
    type: "checkbox",
    data: { testid: "chart-log" },
    on: { change: () => view.setStyle({ log: log.checked }) },
  });
  const stretch = stretchControl(view);
  const root = el(
    "div",
    { class: "chart-tools", role: "group", "aria-label": "All charts", data: { testid: "chart-tools" } },
    smoothing.root,
    el("label", { class: "tool" }, log, el("span", { text: "Log values" })),
    axis.root,
    stretch.root,
  );
  const show = () => {
    smoothing.show();
    log.checked = view.log;
    axis.show();
    stretch.show();
  };
  const stop = view.subscribe((change) => {
    if (change !== "style" && change !== "range") return;
    show();
    onChange();
  });
  show();
  return {
    root,
    /** `range`: first and last step there are; null before any. */
    update(range) {
      stretch.setWhole(range);
      show();
    },
    destroy: stop,
  };
}

function smoothingControl(view) {
  let timer = null;
  const input = el("input", {
    type: "range",
    min: "0",
    max: String(MOST_SMOOTHING),
    step: "0.01",
    "aria-label": "Smoothing",
    data: { testid: "chart-smoothing" },
    on: {
      input: () => {
        setText(number, words(Number(input.value)));
        clearTimeout(timer);
        timer = setTimeout(() => {
          timer = null;
          view.setStyle({ smoothing: Number(input.value) });
        }, REST_MS);
      },
    },
  });
  const words = (value) => (value === 0 ? "off" : value.toFixed(2));
  const number = el("output", { class: "tool-value numeric" });
  return {
    root: el("label", { class: "tool" }, el("span", { text: "Smoothing" }), input, number),
    show() {
      // What the hand has just chosen and the view does not know yet stays.
      if (timer !== null) return;
      if (Number(input.value) !== view.smoothing) input.value = String(view.smoothing);
      setText(number, words(view.smoothing));
      input.setAttribute("aria-valuetext", words(view.smoothing));
    },
  };
}

function axisControl(view) {
  const option = (axis, text) =>
    el("button", {
      class: "segment",
      type: "button",
      text,
      data: { testid: `chart-axis-${axis}` },
      on: { click: () => view.setStyle({ axis }) },
    });
  const buttons = { step: option("step", "Steps"), time: option("time", "Time") };
  return {
    root: el(
      "span",
      { class: "segments", role: "group", "aria-label": "Horizontal axis" },
      buttons.step,
      buttons.time,
    ),
    show() {
      const isUnknown = view.clock !== null && !view.clock.isKnown;
      for (const [axis, button] of Object.entries(buttons)) {
        button.setAttribute("aria-pressed", String(view.axis === axis));
      }
      buttons.time.disabled = isUnknown;
      buttons.time.title = isUnknown ? "It is not known yet when the steps were." : "";
    },
  };
}

/** The stretch as two numbers, so that it can be read, typed and reset without a pointer. */
function stretchControl(view) {
  let whole = null;
  const place = (label, testid) =>
    el("input", {
      type: "number",
      class: "tool-number",
      min: "0",
      step: "1",
      "aria-label": label,
      data: { testid },
      on: { change: ({ target }) => take(target) },
    });
  const from = place("First step shown", "chart-from");
  const to = place("Last step shown", "chart-to");
  /** An end that passes the other one takes that one to the end of the run. */
  function take(changed) {
    if (whole === null) return;
    const [low, high] = [from, to].map((input, i) => (input.value === "" ? whole[i] : Number(input.value)));
    const crossed = low >= high;
    const range = [crossed && changed === to ? whole[0] : low, crossed && changed === from ? whole[1] : high];
    view.zoom(range[0] <= whole[0] && range[1] >= whole[1] ? null : range);
    show();
  }
  const reset = el(
    "button",
    {
      class: "button button-small",
      type: "button",
      data: { testid: "chart-reset" },
      on: { click: () => view.zoom(null) },
    },
    icon("zoomOut", 14),
    el("span", { text: "All steps" }),
  );
  function show() {
    const shown = view.range ?? whole;
    [from, to].forEach((input, i) => {
      const text = shown === null ? "" : String(Math.round(shown[i]));
      if (input !== document.activeElement || view.range === null) input.value = text;
    });
    reset.disabled = view.range === null;
  }
  return {
    root: el(
      "span",
      { class: "tool tool-stretch" },
      el("span", { text: "Steps" }),
      from,
      el("span", { "aria-hidden": "true", text: "–" }),
      to,
      reset,
    ),
    setWhole(range) {
      whole = range;
      const title = range === null ? "" : `of ${formatStep(range[0])} to ${formatStep(range[1])}`;
      from.title = title;
      to.title = title;
    },
    show,
  };
}
