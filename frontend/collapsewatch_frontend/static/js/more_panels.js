/** The measures that stand folded away on a run's page: they explain, and few look at them first. Pure. */

import { BATCH, SCORED } from "./places.js";

/**
 * @param {string} scope
 * @param {string} metric
 * @param {string} title
 * @param {Record<string, any>} [panel]
 */
const single = (scope, metric, title, { name = title.toLowerCase(), colour = 0, ...options } = {}) => ({
  id: metric.replace(/_/g, "-"),
  scope,
  metric,
  title,
  lines: [{ metric, name, colour, band: true }],
  ...options,
});

/** As `PANELS` in panels.js. */
export const MORE_PANELS = [
  single(SCORED, "retrieval_skill", "Retrieval skill", {
    references: [{ value: 0, name: "chance" }],
  }),
  {
    id: "retrieval-at-k",
    scope: SCORED,
    metric: "retrieval_accuracy@4",
    title: "Own prompt among the best k",
    yRange: [0, 1.03],
    legend: true,
    lines: [
      { metric: "retrieval_accuracy@2", name: "best 2", colour: 0 },
      { metric: "retrieval_accuracy@4", name: "best 4", colour: 2 },
      { metric: "retrieval_accuracy@8", name: "best 8", colour: 3 },
      {
        metric: "retrieval_chance@2",
        name: "chance of the best 2",
        colour: "muted",
        dash: "dash",
        muted: true,
      },
    ],
  },
  single(SCORED, "retrieval_p_value", "Permutation p-value", {
    name: "p",
    yRange: [0, 1.03],
    references: [{ value: 0.05, name: "0.05" }],
  }),
  single(SCORED, "mi_normalised", "Mutual information ÷ ceiling", {
    colour: 2,
    name: "share of the ceiling",
  }),
  single(SCORED, "mi_token", "Mutual information per token", { colour: 2, name: "nats per token" }),
  {
    id: "mi-zscore",
    scope: SCORED,
    metric: "mi_zscore",
    title: "MI z-score",
    legend: true,
    lines: [
      { metric: "mi_zscore", name: "z-score", colour: 2, band: true },
      { metric: "mi_zscore_ema", name: "with the smoothed spread", colour: 3 },
    ],
  },
  single(SCORED, "diversity_ratio", "Within-input diversity", {
    name: "H(Z|X) ÷ baseline",
    yRange: "from zero",
    references: [
      { value: 0.5, name: "low below 0.5", below: true },
      { value: 1, name: "baseline" },
    ],
  }),
  {
    id: "entropy-seq",
    scope: SCORED,
    metric: "conditional_entropy_seq",
    title: "Entropies per sequence",
    yRange: "from zero",
    legend: true,
    lines: [
      { metric: "conditional_entropy_seq", name: "H(Z|X)", colour: 0, band: true },
      { metric: "reasoning_entropy_seq", name: "H(Z)", colour: 1 },
    ],
  },
  single(SCORED, "marginal_std", "Spread of the marginals", { colour: 3, name: "std" }),
  single(SCORED, "pmi_evalue", "PMI e-value", {
    colour: 3,
    name: "e-value",
    references: [{ value: 1, name: "about 1 or less is right" }],
  }),
  single(BATCH, "reward_std", "Reward std", { colour: 2, name: "std", yRange: "from zero" }),
  single(BATCH, "reward_variance_dispersion", "Dispersion of reward variance", {
    colour: 2,
    name: "std ÷ mean",
    yRange: "from zero",
  }),
  single(BATCH, "zero_variance_fraction", "Zero-variance groups", {
    colour: 1,
    name: "share",
    share: true,
    yRange: [0, 1.03],
  }),
  single(BATCH, "success", "Success of the rollouts", {
    name: "success",
    colour: 2,
    share: true,
    yRange: [0, 1.03],
  }),
  single(BATCH, "compression_ratio", "Compression ratio", { colour: 3, name: "compressed ÷ plain" }),
];
