/** Which figures a run's page holds, and of which metrics. Pure. */

import { isBucketScalar } from "./gradients.js";
import { MORE_PANELS } from "./more_panels.js";
import { BATCH, SCORED, TRAINER } from "./places.js";

export { BATCH, MORE_PANELS, SCORED, TRAINER };

/** Where the alarms of the first turns go off: their part of a run's error budget (docs/metrics.md section 5). */
const LOG10_WARNING = Math.log10(500 / ((3 / 4) * (7 / 8)));
const LOG10_CRITICAL = Math.log10(1000 / ((15 / 16) * (7 / 8)));

/**
 * `metric` names the figure and its explanation; `lines` are what is drawn.
 * `colour` is an index of the theme's series colours, or "muted"; `share` shows values in percent.
 */
export const PANELS = [
  {
    id: "retrieval",
    scope: SCORED,
    metric: "retrieval_accuracy",
    title: "Retrieval accuracy",
    size: "tall",
    yRange: [0, 1.03],
    lines: [
      { metric: "retrieval_accuracy", name: "accuracy", colour: 0, band: true },
      { metric: "retrieval_chance", name: "chance", colour: "muted", dash: "dash", muted: true },
    ],
    beside: { metric: "retrieval_chance", name: "chance" },
  },
  {
    id: "mi",
    scope: SCORED,
    metric: "mi_seq",
    title: "Mutual information",
    size: "tall",
    yRange: "from zero",
    lines: [
      { metric: "mi_seq", name: "I(X;Z)", colour: 2, band: true },
      { metric: "mi_ceiling", name: "ceiling", colour: "muted", dash: "dash", muted: true },
    ],
    beside: { metric: "mi_ceiling", name: "ceiling" },
  },
  {
    id: "entropy",
    scope: SCORED,
    metric: "conditional_entropy",
    title: "H(Z|X) and H(Z)",
    size: "tall",
    yRange: "from zero",
    lines: [
      { metric: "conditional_entropy", name: "H(Z|X)", colour: 0, band: true },
      { metric: "reasoning_entropy", name: "H(Z)", colour: 1 },
    ],
    beside: { metric: "reasoning_entropy", name: "H(Z)" },
    legend: true,
  },
  {
    id: "reward",
    scope: BATCH,
    metric: "reward",
    title: "Reward",
    lines: [{ metric: "reward", name: "reward", colour: 2 }],
  },
  {
    id: "reward-variance",
    scope: BATCH,
    metric: "reward_variance",
    title: "Reward variance",
    yRange: "from zero",
    lines: [{ metric: "reward_variance", name: "variance", colour: 2 }],
  },
  {
    id: "zero-variance",
    scope: BATCH,
    metric: "zero_variance_fraction",
    title: "Zero-variance groups, by cause",
    yRange: [0, 1.03],
    share: true,
    stacked: true,
    legend: true,
    lines: [
      { metric: "zero_variance_too_hard", name: "too hard", colour: 1 },
      { metric: "zero_variance_too_easy", name: "too easy", colour: 0 },
      { metric: "zero_variance_reward_insensitive", name: "insensitive reward", colour: 3 },
      { metric: "zero_variance_tied", name: "tied, cause unknown", colour: "muted" },
    ],
  },
  {
    id: "valid-reasoning",
    scope: BATCH,
    metric: "valid_reasoning_rate",
    title: "Valid reasoning",
    yRange: [0, 1.03],
    share: true,
    references: [
      { value: 0.9, name: "" },
      { value: 0.8, name: "alarms below 90 % and 80 %", below: true },
    ],
    lines: [{ metric: "valid_reasoning_rate", name: "valid", colour: 0 }],
  },
  {
    id: "length",
    scope: BATCH,
    metric: "reasoning_length",
    title: "Reasoning length",
    yRange: "from zero",
    lines: [{ metric: "reasoning_length", name: "tokens", colour: 0 }],
  },
  {
    id: "evidence",
    scope: SCORED,
    metric: "log_evalue_critical",
    title: "Evidence of a drop",
    yRange: "from zero",
    references: [
      { value: LOG10_WARNING, name: "" },
      { value: LOG10_CRITICAL, name: "alarms of first turns at 2.9 and 3.1" },
    ],
    legend: true,
    lines: [
      { metric: "log_evalue_warning", name: "warning level", colour: 1 },
      { metric: "log_evalue_critical", name: "critical level", colour: 3 },
    ],
  },
];

/** Stands beside the phrases that reasonings share, apart from the others. */
export const TEMPLATE_PANEL = {
  id: "template-ratio",
  scope: BATCH,
  metric: "compression_distance_ratio",
  title: "Compression distance ratio",
  references: [{ value: 1, name: "1: the prompt makes no difference" }],
  lines: [{ metric: "compression_distance_ratio", name: "within ÷ across prompts", colour: 3 }],
};

const TRAINER_FIRST = ["success", "eval", "accuracy"];
const MAX_TRAINER_PANELS = 12;

/**
 * One panel per plain scalar that the trainer sent, success first; `left` counts those without a place.
 * Gradient norms by bucket have a figure of their own.
 */
export function trainerPanels(names) {
  const rank = (name) => {
    const place = TRAINER_FIRST.findIndex((word) => name.includes(word));
    return place === -1 ? TRAINER_FIRST.length : place;
  };
  const ordered = names
    .filter((name) => !isBucketScalar(name))
    .sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  const shown = ordered.slice(0, MAX_TRAINER_PANELS);
  return {
    panels: shown.map((name) => ({
      id: `trainer-${name}`,
      scope: TRAINER,
      metric: name,
      title: name,
      lines: [{ metric: name, name, colour: 0 }],
    })),
    left: ordered.length - shown.length,
  };
}

/** Of the trainer's names those that are drawn: one panel each, and the norms by bucket. */
export function trainerMetrics(names) {
  return [...trainerPanels(names).panels.map(({ metric }) => metric), ...names.filter(isBucketScalar)];
}

/** Metrics that the panels of a scope draw; with `more` those of the measures that stand folded away, too. */
export function metricsOf(scope, { more = false } = {}) {
  const panels = [...PANELS, TEMPLATE_PANEL, ...(more ? MORE_PANELS : [])];
  const inScope = panels.filter((panel) => panel.scope === scope);
  const drawn = inScope.flatMap((panel) => [panel.metric, ...panel.lines.map((line) => line.metric)]);
  const extra = scope === SCORED ? ["retrieval_skill", "diversity_ratio"] : [];
  return [...new Set([...drawn, ...extra])];
}

/** Scopes that a scorer made: all but the batch's and the trainer's own. */
export function scoredScopes(scopes) {
  return scopes.filter((scope) => scope !== BATCH && scope !== TRAINER);
}

/** The scope to show: the one asked for, else the first turn, else the first there is. */
export function chooseScope(wanted, scopes) {
  const scored = scoredScopes(scopes);
  if (scored.includes(wanted)) return wanted;
  return scored.includes("first_turn") || scored.length === 0 ? "first_turn" : scored[0];
}
