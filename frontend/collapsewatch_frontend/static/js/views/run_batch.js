/** What exactly collapsed: a step in detail, beside another: heatmaps, prompts, filters, variance buckets. */

import { formatStep, isNumber, plural } from "../format.js";
import { promptRows, sortedRows } from "../prompts.js";
import { rolloutsHref } from "../routes.js";
import { isShared } from "../shared.js";
import { StepBook } from "../step_book.js";
import { StepDetail } from "../step_detail.js";
import { el, setText } from "./dom.js";
import { filterPreview } from "./filter_preview.js";
import { promptTable } from "./prompt_table.js";
import { heatmapsPart } from "./run_heatmaps.js";
import { bucketsCard, gradientsCard } from "./run_variance.js";
import { stepPicker } from "./step_picker.js";

/** While the slider moves, a step is read when it rests this long. */
const REST_MS = 150;

/** `charts` is the page's ChartView, `onAgainst` gets the step to lay beside, null for none. */
export function batchPart({ api, charts, runId, subject, onAgainst }) {
  const book = new StepBook(api, runId);
  const detail = new StepDetail(book);
  const order = { order: "number", reverse: false, rule: "" };
  const onOrder = (change) => {
    Object.assign(order, change);
    draw();
  };
  const parts = buildParts({ charts, subject, onAgainst, onOrder });
  let view = null;
  let timer = null;
  const seen = firstSight(parts.root, () => load());

  async function load() {
    timer = null;
    if (view === null) return;
    const { data, against } = view;
    const asked = { data, against, selected: charts.selected, withKept: seen.was };
    try {
      const isNew = await detail.load(asked);
      setText(parts.problem, "");
      if (isNew) draw();
    } catch (error) {
      setText(parts.problem, `The step could not be loaded: ${error.message}.`);
    }
  }

  function draw() {
    if (view !== null) show(parts, { view, order, selected: charts.selected, ...detail.shown });
  }

  const stop = charts.subscribe((change) => {
    if (change !== "selected") return;
    clearTimeout(timer);
    timer = setTimeout(load, REST_MS);
  });
  return {
    root: parts.root,
    update(next) {
      view = next;
      draw();
      load();
    },
    /** A step was scored, perhaps a late one; null when nobody knows which. */
    news: (step) => book.news(step),
    destroy() {
      stop();
      clearTimeout(timer);
      seen.stop();
      parts.heatmaps.destroy();
      parts.gradients.destroy();
    },
  };
}

/** Calls back once the part is near the screen for the first time; `was` says whether it has been. */
function firstSight(part, onSight) {
  const sight = { was: false, stop: () => observer.disconnect() };
  const observer = new IntersectionObserver(
    ([entry]) => {
      if (!entry.isIntersecting || sight.was) return;
      sight.was = true;
      observer.disconnect();
      onSight();
    },
    { rootMargin: "600px" },
  );
  observer.observe(part);
  return sight;
}

function buildParts({ charts, subject, onAgainst, onOrder }) {
  const heading = el("h2", { class: "section-title" });
  const problem = el("p", { class: "card-note", role: "status", data: { testid: "step-problem" } });
  const picker = stepPicker({ onStep: (step) => charts.select(step), onAgainst });
  const heatmaps = heatmapsPart({ subject });
  const prompts = promptTable({
    onOrder: (name, reverse) => onOrder({ order: name, reverse }),
    onRule: (rule) => onOrder({ rule }),
  });
  const [filters, buckets, gradients] = [filterPreview(), bucketsCard(), gradientsCard()];
  const beside = el("div", { class: "batch-side" }, filters.root, gradients.root);
  const root = el(
    "section",
    { class: "batch-part", hidden: true, "aria-label": "Step in detail", data: { testid: "step-detail" } },
    el("div", { class: "section-head" }, heading, picker.root),
    problem,
    el("div", { class: "heatmap-grid" }, heatmaps.roots),
    prompts.root,
    el("div", { class: "batch-grid" }, buckets.root, beside),
  );
  return { root, heading, problem, picker, heatmaps, prompts, filters, buckets, gradients };
}

function show(parts, { view, order, selected, step, then, kept }) {
  const { data } = view;
  const { summary } = data;
  const batch = step ?? { filters: summary.filters ?? [], buckets: summary.buckets ?? {} };
  parts.root.hidden = step === null && (summary.groups ?? []).length === 0;
  setText(parts.heading, headingText(step, selected));
  parts.picker.root.hidden = step === null;
  parts.prompts.root.hidden = step === null;
  parts.filters.update(batch.filters);
  parts.buckets.update(batch.buckets);
  parts.gradients.update(view);
  if (step === null) parts.heatmaps.hide();
  else showStep(parts, { view, order, step, then, kept });
}

function showStep({ picker, heatmaps, prompts }, { view: { data, against }, order, step, then, kept }) {
  picker.update({
    scored: data.shownTrajectory().points,
    current: step.step,
    beside: against,
    baselineLast: baselineStep(data.trajectory.baseline),
  });
  const rules = step.filters.map((filter) => filter.rule);
  const rule = rules.includes(order.rule) ? order.rule : (rules[0] ?? "");
  const rows = sortedRows(promptRows(step, { kept, then }), order.order, { ...order, rule });
  const rolloutsOf = (group) => (isShared() ? null : rolloutsHref(data.runId, { step: step.step, group }));
  const numbers = rows.map((row) => row.number);
  heatmaps.update({ step, then, numbers, runId: data.runId, asked: against });
  prompts.update({ rows, ...order, chosenRule: rule, then: then?.step ?? null, kept, rolloutsOf });
}

const baselineStep = (baseline) => (isNumber(baseline?.last_step) ? baseline.last_step : null);

function headingText(step, selected) {
  if (step === null) return "Newest batch";
  const { evaluation } = step;
  const which =
    selected === null
      ? `Newest scored batch: step ${formatStep(step.step)}`
      : `Step ${formatStep(step.step)}`;
  return `${which}, ${plural(evaluation.num_prompts, "prompt")}, ${plural(evaluation.num_rows, "scored reasoning")}`;
}
