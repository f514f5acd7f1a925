/** Which step is looked at in detail, and which one it is laid beside. */

import { formatStep } from "../format.js";
import { neighbours } from "../step_book.js";
import { el, setText } from "./dom.js";

/** `onStep` and `onAgainst` get a step; null for the newest, and for none. */
export function stepPicker({ onStep, onAgainst }) {
  let points = [];
  let shown = null;
  const button = (text, label, testid, run) =>
    el("button", {
      class: "button button-small",
      type: "button",
      "aria-label": label,
      title: label,
      text,
      data: { testid },
      on: { click: run },
    });
  const go = (step) => {
    if (step !== null) onStep(points.length > 0 && step >= points[points.length - 1].step ? null : step);
  };
  const before = button("‹", "Scored step before", "step-before", () => go(neighbours(points, shown).before));
  const after = button("›", "Scored step after", "step-after", () => go(neighbours(points, shown).after));
  const step = stepInput("Step", "step-input", (value) => (value === null ? onStep(null) : go(value)));
  const against = stepInput("Step to lay beside", "against-input", onAgainst);
  const baseline = button("Baseline", "Lay the last step of the baseline beside", "against-baseline", () =>
    onAgainst(baselineStep),
  );
  const none = button("No step", "No step beside", "against-none", () => onAgainst(null));
  const range = el("span", { class: "faint" });
  let baselineStep = null;
  const root = el(
    "div",
    { class: "step-picker", role: "group", "aria-label": "Steps in detail", data: { testid: "step-picker" } },
    el("span", { class: "tool" }, el("span", { text: "Step" }), before, step, after, range),
    el("span", { class: "tool" }, el("span", { text: "beside step" }), against, baseline, none),
  );
  return {
    root,
    /** `scored`: points of the trajectory; `baselineLast`: the baseline's last step, or null. */
    update({ scored, current, beside, baselineLast }) {
      points = scored;
      shown = current;
      baselineStep = baselineLast;
      const around = current === null ? { before: null, after: null } : neighbours(points, current);
      before.disabled = around.before === null;
      after.disabled = around.after === null;
      show(step, current);
      show(against, beside);
      baseline.disabled = baselineLast === null || beside === baselineLast;
      none.disabled = beside === null;
      setText(
        range,
        points.length === 0
          ? ""
          : `of ${formatStep(points[0].step)} to ${formatStep(points[points.length - 1].step)}`,
      );
    },
  };
}

function stepInput(label, testid, take) {
  const input = el("input", {
    type: "number",
    class: "tool-number",
    min: "0",
    step: "1",
    "aria-label": label,
    data: { testid },
    on: { change: () => take(/^\d+$/.test(input.value) ? Number(input.value) : null) },
  });
  return input;
}

function show(input, step) {
  const text = step === null ? "" : String(step);
  if (input !== document.activeElement && input.value !== text) input.value = text;
}
