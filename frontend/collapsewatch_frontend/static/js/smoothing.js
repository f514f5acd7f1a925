/** Curves without their jitter. Pure. */

import { isNumber } from "./format.js";

export const MOST_SMOOTHING = 0.99;

/**
 * Exponential mean of the values up to each step, without the pull towards zero at the start.
 *
 * `weight` (0 to below 1) is what the past counts after a usual distance between two steps, and less after a
 * longer one: so a gap does not drag old values along. Absent values stay absent and count as nothing.
 */
export function smoothed(steps, values, weight) {
  if (!(weight > 0)) return values;
  const usual = usualGap(steps);
  let sum = 0;
  let share = 0;
  let before = null;
  return steps.map((step, i) => {
    if (!isNumber(values[i])) return null;
    const kept = before === null ? 0 : weight ** ((step - before) / usual);
    before = step;
    sum = kept * sum + (1 - weight) * values[i];
    share = kept * share + (1 - weight);
    return sum / share;
  });
}

/** The median distance between neighbouring steps; 1 where there is none. */
function usualGap(steps) {
  const gaps = steps
    .slice(1)
    .map((step, i) => step - steps[i])
    .filter((gap) => gap > 0)
    .sort((a, b) => a - b);
  return gaps.length === 0 ? 1 : gaps[(gaps.length - 1) >> 1];
}
