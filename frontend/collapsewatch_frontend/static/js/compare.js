/** What differs between runs, and which figures lay them over one another. Pure. */

import { BATCH, SCORED, TRAINER } from "./panels.js";

export const MAX_RUNS = 4;

export const COMPARED = [
  {
    id: "retrieval",
    size: "tall",
    band: true,
    scope: SCORED,
    metric: "retrieval_accuracy",
    title: "Retrieval accuracy",
    yRange: [0, 1.03],
    reference: "retrieval_chance",
  },
  {
    id: "mi",
    size: "tall",
    band: true,
    scope: SCORED,
    metric: "mi_seq",
    title: "Mutual information",
    yRange: "from zero",
    reference: "mi_ceiling",
  },
  {
    id: "entropy",
    size: "tall",
    band: true,
    scope: SCORED,
    metric: "conditional_entropy",
    title: "H(Z|X)",
    yRange: "from zero",
  },
  { id: "reward", scope: BATCH, metric: "reward", title: "Reward" },
  { id: "success", scope: TRAINER, metric: "success", title: "Success" },
  {
    id: "zero-variance",
    scope: BATCH,
    metric: "zero_variance_fraction",
    title: "Zero-variance groups",
    yRange: [0, 1.03],
    share: true,
  },
];

/** Settings that are not the same in all runs: `[{key, values}]`, values in the order of the runs. */
export function configDifference(configs) {
  const keys = [...new Set(configs.flatMap((config) => Object.keys(config)))].sort();
  return keys
    .map((key) => ({ key, values: configs.map((config) => config[key]) }))
    .filter(({ values }) => new Set(values.map((value) => JSON.stringify(value))).size > 1);
}

/** `reference` once, when all runs share it (chance level, ceiling); null when they differ. */
export function sharedReference(allSeries) {
  const values = allSeries.flatMap((series) => series?.values ?? []).filter(Number.isFinite);
  if (values.length === 0) return null;
  const low = Math.min(...values);
  const high = Math.max(...values);
  return high - low <= 1e-3 * Math.max(1, Math.abs(high)) ? high : null;
}
