/** What differs between runs, and which figures lay them over one another. Pure. */

import { formatStep, ordinal, plural, scorerWords } from "./format.js";
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

/** The rule by which a part was scored, without what changes from step to step by itself. */
function samplingRule(sampling) {
  if (sampling === null) return null;
  if (sampling.by_trainer) return "chosen by the trainer";
  const parts = [];
  if (Number.isFinite(sampling.num_samples)) parts.push(`at most ${formatStep(sampling.num_samples)} reasonings`);
  if (sampling.every_steps > 1) parts.push(`every ${ordinal(sampling.every_steps)} step`);
  if (sampling.is_probe) {
    // Sets of the same size are told apart by their key.
    parts.push(`probe set of ${plural(sampling.num_probe_groups, "prompt")} (${sampling.probe_key})`);
  }
  return parts.join(" · ") || "every reasoning";
}

/** What has to be the same in all runs before the levels of their scores can be compared. */
const SCORED_ALIKE = [
  { key: "scorer", read: ({ scorer }) => scorerWords(scorer) },
  { key: "estimates", read: ({ scorer }) => (scorer.is_policy ? "the policy’s own I(X;Z)" : "a proxy") },
  { key: "tokens", read: ({ scorer }) => (scorer.retokenised ? "re-tokenised" : "as they were sent") },
  { key: "scope", read: ({ scope }) => scope.replace(/_/g, " ") },
  { key: "part scored", read: ({ sampling }) => samplingRule(sampling) },
  { key: "temperature", read: ({ temperature }) => temperature },
  { key: "reasoning tags", read: ({ template }) => template },
];

/**
 * How the scoring of the runs differs: `[{key, values}]`, values in the order of the runs. A run is
 * `{scorer, scope, sampling, temperature, template}`; what is null is not known, and a run without
 * scores differs from none.
 */
export function scoringDifference(runs) {
  return SCORED_ALIKE.map(({ key, read }) => ({
    key,
    values: runs.map((run) => (run.scorer === null ? null : read(run))),
  })).filter(({ values }) => new Set(values.filter((value) => value !== null)).size > 1);
}

/** `reference` once, when all runs share it (chance level, ceiling); null when they differ. */
export function sharedReference(allSeries) {
  const values = allSeries.flatMap((series) => series?.values ?? []).filter(Number.isFinite);
  if (values.length === 0) return null;
  const low = Math.min(...values);
  const high = Math.max(...values);
  return high - low <= 1e-3 * Math.max(1, Math.abs(high)) ? high : null;
}
