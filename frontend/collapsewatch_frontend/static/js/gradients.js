/** Gradient norms that a trainer logs by bucket of reward variance, and the bound on them. Pure. */

import { isNumber } from "./format.js";

const TASK = "grad_norm_task";
const REGULARISATION = "grad_norm_reg";
const SCORE = "score_norm_sq";
const BUCKETS = ["q1", "q2", "q3", "q4", "q5", "q6"];
const NAMES = new Set([TASK, REGULARISATION, SCORE].flatMap((kind) => BUCKETS.map((q) => `${kind}/${q}`)));

/** Whether a trainer's scalar belongs into this figure, and so not among the plain ones. */
export const isBucketScalar = (name) => NAMES.has(name);

/** Whether any gradient norm was logged; a score norm alone makes no figure. */
export function hasGradients(trainer) {
  return gradientSteps(trainer).length > 0;
}

/**
 * The newest step with a gradient norm that is no later than `scored`, else the newest of all;
 * null when there is none. The buckets of a later step are still on their way.
 */
export function gradientStep(trainer, scored) {
  const steps = gradientSteps(trainer);
  const ready = steps.filter((step) => scored !== null && step <= scored);
  return (ready.length > 0 ? ready : steps).at(-1) ?? null;
}

/**
 * One point per bucket that has a norm at the step: `x` is √(mean reward variance), `bound` is
 * √(mean reward variance) · √E‖score‖², null where the trainer sent no score norm.
 */
export function gradientPoints(trainer, step, buckets) {
  return buckets
    .map((bucket) => {
      const q = bucket.name.toLowerCase();
      const at = (kind) => valueAt(trainer[`${kind}/${q}`], step);
      const x = Math.sqrt(bucket.reward_variance);
      const score = at(SCORE);
      return {
        name: bucket.name,
        numGroups: bucket.num_groups,
        x,
        task: at(TASK),
        regularisation: at(REGULARISATION),
        bound: score !== null && score >= 0 ? x * Math.sqrt(score) : null,
      };
    })
    .filter((point) => point.task !== null || point.regularisation !== null);
}

function gradientSteps(trainer) {
  const steps = new Set();
  for (const q of BUCKETS) {
    for (const kind of [TASK, REGULARISATION]) {
      const series = trainer[`${kind}/${q}`];
      series?.steps.forEach((step, i) => isNumber(series.values[i]) && steps.add(step));
    }
  }
  return [...steps].sort((a, b) => a - b);
}

function valueAt(series, step) {
  const value = series?.values[series.steps.indexOf(step)];
  return isNumber(value) ? value : null;
}
