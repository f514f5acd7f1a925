/** The newest batch's groups by spread of their rewards, and the trainer's gradient norms by the same buckets. */

import { gradientFigure } from "../figures/gradients.js";
import { formatNumber, formatStep } from "../format.js";
import { gradientPoints, gradientStep, hasGradients } from "../gradients.js";
import { TRAINER } from "../panels.js";
import { scrollRegion, shareBar } from "./components.js";
import { el, rerender } from "./dom.js";
import { figureCard } from "./figure_card.js";
import { chartTheme } from "./theme.js";

const COLUMNS = ["Bucket", "Groups", "Variance", "Std", "Reward"];
const GRADIENT_INFO = {
  explanation:
    "Norms that the trainer logged by bucket. The task’s gradient should grow with the spread of the rewards, and the bound says how far it can; regularisation does not depend on it. Where the second lies above the first, a step follows regularisation more than reward.",
  formula: "‖g_task‖ ≤ √Var(R) · √E‖∇ log π‖²",
};

export function bucketsCard() {
  const table = scrollRegion("Reward variance by bucket");
  const root = el(
    "section",
    { class: "card", data: { testid: "variance-buckets" } },
    el(
      "header",
      { class: "figure-head" },
      el("h3", { class: "figure-title", text: "Reward variance by bucket" }),
    ),
    el("p", {
      class: "card-note",
      text: "Prompt groups from the smallest spread of rewards to the largest, equally many in each bucket and the rest in the last; means over the groups.",
    }),
    table,
  );
  return {
    root,
    /** `buckets` of a step, as the API answers them. */
    update(buckets) {
      root.hidden = (buckets.quantile ?? []).length === 0;
      rerender(table, JSON.stringify(buckets), () => [bucketTable(buckets)]);
    },
  };
}

/** Fixed buckets are told only where they tell groups apart. */
function bucketTable({ quantile = [], fixed = [] }) {
  const largest = Math.max(...[...quantile, ...fixed].map((bucket) => bucket.reward_variance), 0);
  return el(
    "table",
    { class: "data bucket-table" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        COLUMNS.map((text, i) =>
          el("th", { scope: "col", class: i === 0 || i === 2 ? null : "numeric", text }),
        ),
      ),
    ),
    el(
      "tbody",
      {},
      quantile.map((bucket) => bucketRow(bucket.name, bucket, largest)),
    ),
    fixed.length > 1
      ? el(
          "tbody",
          {},
          fixed.map((bucket) => bucketRow(`std in ${bucket.name}`, bucket, largest)),
        )
      : null,
  );
}

function bucketRow(name, bucket, largest) {
  return el(
    "tr",
    {},
    el("th", { scope: "row", text: name }),
    el("td", { class: "numeric", text: formatStep(bucket.num_groups) }),
    el(
      "td",
      { class: "cell-kept" },
      el(
        "span",
        { class: "bar-line" },
        shareBar(largest > 0 ? bucket.reward_variance / largest : 0),
        el("span", { class: "numeric", text: formatNumber(bucket.reward_variance) }),
      ),
    ),
    el("td", { class: "numeric", text: formatNumber(bucket.reward_std) }),
    el("td", { class: "numeric", text: formatNumber(bucket.reward) }),
  );
}

/** There only for trainers that log such norms. */
export function gradientsCard() {
  const card = figureCard({
    id: "gradients",
    title: "Gradient norm by reward variance",
    info: GRADIENT_INFO,
    hasLegend: true,
  });
  return {
    root: card.root,
    update({ data }) {
      const trainer = data.series[TRAINER];
      card.root.hidden = !hasGradients(trainer);
      if (card.root.hidden) return card.update({});
      const step = gradientStep(trainer, data.step?.step ?? null);
      const points = gradientPoints(trainer, step, data.bucketStep?.buckets?.quantile ?? []);
      if (points.length === 0) return card.update({ reason: reasonOf(data, step) });
      return card.update({
        label: `${labelOf(points)} At step ${formatStep(step)}, by the trainer.`,
        legendItems: legendOf(points, step),
        build: ({ compact }) =>
          gradientFigure({
            points,
            compact,
            theme: chartTheme(),
            revision: `${data.runId} ${points.length}`,
          }),
      });
    },
    destroy: () => card.destroy(),
  };
}

function reasonOf(data, step) {
  if (data.bucketStep === null) return `The batch of step ${formatStep(step)} has not been scored.`;
  return `The batch of step ${formatStep(step)} has no bucket that the trainer’s norms belong to.`;
}

const labelOf = (points) =>
  `Gradient norm by bucket: ${points.map((p) => `${p.name} ${formatNumber(p.task ?? p.regularisation)}`).join(", ")}.`;

function legendOf(points, step) {
  const has = (key) => points.some((point) => point[key] !== null);
  return [
    has("task") ? { name: "task", colourToken: "series-1", shape: "dot" } : null,
    has("regularisation") ? { name: "regularisation", colourToken: "series-2" } : null,
    has("bound") ? { name: "bound on the task’s", colourToken: "series-muted" } : null,
    { name: `step ${formatStep(step)}, sent by the trainer`, shape: "none" },
  ].filter((item) => item !== null);
}
