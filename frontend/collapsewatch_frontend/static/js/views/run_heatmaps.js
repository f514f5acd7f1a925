/** Whose reasoning fits whose prompt, at a step and beside it at another. */

import { hasHeatmap, heatmapFigure } from "../figures/heatmap.js";
import { formatStep } from "../format.js";
import { matchedPrompts, matrixDifference, orderedPrompts } from "../prompts.js";
import { el, setText } from "./dom.js";
import { figureCard } from "./figure_card.js";
import { chartTheme } from "./theme.js";

const INFO = {
  explanation:
    "Row: whose reasoning; column: the prompt that it fits best. A strong diagonal means that reasoning depends on its prompt; a strong column is a prompt that attracts everything. Rows and columns stand in the order of the table below.",
  formula: "share of the row’s reasonings with argmax_j L(r, j) = column",
};
const BESIDE_INFO = {
  explanation:
    "The same map at the other step, its prompts in the same places where both steps have the same ones; or the change between the two, blue where more reasonings fit a prompt than then.",
  formula: "share at the step − share at the other step",
};

export function heatmapsPart({ subject }) {
  const here = figureCard({
    id: "heatmap",
    title: "Which prompt each reasoning fits",
    info: INFO,
    size: "square",
    subject,
  });
  const beside = figureCard({
    id: "heatmap-beside",
    title: "The step beside it",
    info: BESIDE_INFO,
    size: "square",
    subject,
  });
  let showsChange = false;
  let shown = null;
  const change = el("input", {
    type: "checkbox",
    data: { testid: "heatmap-change" },
    on: {
      change: () => {
        showsChange = change.checked;
        update(shown);
      },
    },
  });
  const toggle = el(
    "label",
    { class: "tool heatmap-toggle" },
    change,
    el("span", { text: "Show the change" }),
  );
  const note = el("p", { class: "card-note" });
  beside.root.append(toggle, note);

  /** `step` and `then` as the API answers them, `then` null for none; `numbers`: the order of the rows. */
  function update(next) {
    shown = next;
    const { step, numbers, runId, asked } = next;
    const { prompts } = step.evaluation;
    here.root.hidden = prompts.length < 2;
    beside.root.hidden = asked === null;
    if (!hasHeatmap(prompts)) {
      here.update({ reason: "The scorer sent no prompt × prompt retrieval." });
      beside.root.hidden = true;
      return;
    }
    draw(here, orderedPrompts(prompts, numbers), `step ${formatStep(step.step)}`, { runId });
    if (asked !== null) updateBeside(prompts, next);
  }

  function updateBeside(prompts, { step, then, numbers, runId, asked }) {
    toggle.hidden = true;
    setText(note, "");
    if (then === null)
      return beside.update({ reason: `Step ${formatStep(asked)} was not scored in this scope.` });
    const others = then.evaluation.prompts;
    if (!hasHeatmap(others)) return beside.update({ reason: "That step has no prompt × prompt retrieval." });
    const matched = matchedPrompts(prompts, others);
    toggle.hidden = matched === null;
    const name = `step ${formatStep(then.step)}`;
    if (matched === null) {
      setText(note, `Step ${formatStep(then.step)} had other prompts: their numbers are its own.`);
      return draw(beside, others, name, { runId });
    }
    const ordered = orderedPrompts(matched, numbers);
    if (!showsChange) return draw(beside, ordered, name, { runId });
    const now = orderedPrompts(prompts, numbers);
    const words = `step ${formatStep(step.step)} minus step ${formatStep(then.step)}`;
    return draw(beside, matrixDifference(now, ordered), words, { runId, difference: true });
  }

  return {
    roots: [here.root, beside.root],
    update,
    hide() {
      here.root.hidden = true;
      beside.root.hidden = true;
    },
    destroy() {
      here.destroy();
      beside.destroy();
    },
  };
}

function draw(card, prompts, words, { runId, difference = false }) {
  card.update({
    label: `Heatmap of ${prompts.length} by ${prompts.length} prompts, ${words}: share of reasonings that fit each prompt best. The prompt table holds the same in words.`,
    legendItems: [{ name: words, shape: "none" }],
    build: ({ compact }) =>
      heatmapFigure({ prompts, compact, theme: chartTheme(), revision: `${runId} ${words}`, difference }),
  });
}
