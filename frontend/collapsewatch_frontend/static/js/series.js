/** Series of metric points, as the page holds them. Pure. */

import { isNumber } from "./format.js";

/**
 * Values of one metric in step order; `low` and `high` bound the interval where there is one. `num_points` is
 * how many the server has of these steps: more than there are here when the series was cut down to its ends
 * and extremes.
 * @typedef {{steps: number[], values: number[], low?: (number | null)[] | null, high?: (number | null)[] | null, num_points?: number}} Series
 */

const LIMITS = ["low", "high"];

/**
 * One series with `update` laid over it: steps at or after the update's first step are replaced.
 * @param {Series | undefined} series
 * @param {Series} update
 * @returns {Series}
 */
export function mergeSeries(series, update) {
  if (series === undefined || series.steps.length === 0) return joined([update]);
  if (update.steps.length === 0) return series;
  return joined([slice(series, 0, firstAt(series.steps, update.steps[0])), update]);
}

/**
 * A cut-down series with the points of one stretch laid into it: between the first and the last step of
 * `detail` there are its points and no others.
 * @param {Series} series
 * @param {Series} detail
 * @returns {Series}
 */
export function withDetail(series, detail) {
  if (detail.steps.length === 0) return series;
  const before = firstAt(series.steps, detail.steps[0]);
  const after = firstAt(series.steps, detail.steps[detail.steps.length - 1] + 1);
  return joined([slice(series, 0, before), detail, slice(series, after, series.steps.length)]);
}

/** Whether the server has more points of these steps than are here. */
export function isCutDown(series) {
  return series !== undefined && (series.num_points ?? 0) > series.steps.length;
}

/**
 * At most `maxPoints` points: both ends, and of each stretch the lowest and the highest. A page that is left
 * open goes on taking points, and must not keep more of them than it can show.
 * @param {Series} series
 * @returns {Series}
 */
export function thinned(series, maxPoints) {
  if (series.steps.length <= maxPoints) return series;
  const kept = extremes(series.values, maxPoints);
  const pick = (column) => kept.map((at) => column[at]);
  /** @type {Series} */
  const thin = { ...series, steps: pick(series.steps), values: pick(series.values) };
  thin.num_points = Math.max(series.num_points ?? 0, series.steps.length);
  for (const limit of LIMITS) if (series[limit]?.length > 0) thin[limit] = pick(series[limit]);
  return thin;
}

/** The same for points of a trajectory, which keep the extremes along both axes. */
export function thinnedPoints(points, maxPoints) {
  if (points.length <= maxPoints) return points;
  const axes = [points.map((point) => point.dependence), points.map((point) => point.diversity)];
  const kept = new Set(axes.flatMap((values) => extremes(values, Math.floor(maxPoints / 2))));
  return points.filter((_, at) => kept.has(at));
}

/** Positions of both ends and of the extremes of equally many values each, in order. */
function extremes(values, maxPoints) {
  const last = values.length - 1;
  const kept = new Set([0, last]);
  const numStretches = Math.max(1, Math.floor((maxPoints - 2) / 2));
  for (let stretch = 0; stretch < numStretches; stretch += 1) {
    const start = 1 + Math.floor((stretch * (last - 1)) / numStretches);
    const end = 1 + Math.floor(((stretch + 1) * (last - 1)) / numStretches);
    let [lowest, highest] = [-1, -1];
    for (let at = start; at < end; at += 1) {
      if (!isNumber(values[at])) continue;
      if (lowest < 0 || values[at] < values[lowest]) lowest = at;
      if (highest < 0 || values[at] > values[highest]) highest = at;
    }
    if (lowest >= 0) kept.add(lowest).add(highest);
  }
  return [...kept].sort((a, b) => a - b);
}

/** Position of the first step that is not before `step`. */
function firstAt(steps, step) {
  let [low, high] = [0, steps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] < step) low = middle + 1;
    else high = middle;
  }
  return low;
}

function slice(series, start, end) {
  const part = { steps: series.steps.slice(start, end), values: series.values.slice(start, end) };
  for (const limit of LIMITS) if (series[limit]?.length > 0) part[limit] = series[limit].slice(start, end);
  // How many points were left out within the part cannot be told; whether any were can.
  if (isCutDown(series)) part.num_points = series.num_points;
  return part;
}

/** Parts one after the other; where one has no limits they are unknown. */
function joined(parts) {
  /** @type {Series} */
  const whole = {
    steps: parts.flatMap((part) => part.steps),
    values: parts.flatMap((part) => part.values),
  };
  for (const limit of LIMITS) {
    if (!parts.some((part) => part[limit]?.length > 0)) continue;
    whole[limit] = parts.flatMap((part) =>
      part[limit]?.length > 0 ? part[limit] : part.steps.map(() => null),
    );
  }
  if (parts.some(isCutDown)) {
    whole.num_points = Math.max(whole.steps.length + 1, ...parts.map((part) => part.num_points ?? 0));
  }
  return whole;
}

/** All series of a scope, each with its update laid over it; new ones are added. */
export function mergeScope(scope, updates) {
  const merged = { ...scope };
  for (const [name, update] of Object.entries(updates)) merged[name] = mergeSeries(scope[name], update);
  return merged;
}

/** Trajectory points with `update` laid over them, in step order, the update winning. */
export function mergePoints(points, update) {
  const byStep = new Map(points.map((point) => [point.step, point]));
  for (const point of update) byStep.set(point.step, point);
  return [...byStep.values()].sort((a, b) => a.step - b.step);
}

/** The newest point that holds a number: step, value, interval; null when there is none. */
export function newest(series) {
  if (series === undefined) return null;
  for (let i = series.steps.length - 1; i >= 0; i -= 1) {
    if (!isNumber(series.values[i])) continue;
    return {
      step: series.steps[i],
      value: series.values[i],
      low: series.low?.[i] ?? null,
      high: series.high?.[i] ?? null,
    };
  }
  return null;
}

export function isEmpty(series) {
  return newest(series) === null;
}

/** Lowest and highest step over several series; null when all are empty. */
export function stepRange(allSeries) {
  let low = Infinity;
  let high = -Infinity;
  for (const series of allSeries) {
    if (series === undefined || series.steps.length === 0) continue;
    low = Math.min(low, series.steps[0]);
    high = Math.max(high, series.steps[series.steps.length - 1]);
  }
  return low <= high ? [low, high] : null;
}

/** `tail` with the last point of `series` before it in front, so that a branch starts on its stem. */
export function branch(series, tail) {
  if (tail === undefined || tail.steps.length === 0) return tail;
  const before = (series?.steps ?? []).filter((step) => step < tail.steps[0]).length - 1;
  if (before < 0) return tail;
  return {
    steps: [series.steps[before], ...tail.steps],
    values: [series.values[before], ...tail.values],
  };
}

/** The same for points of a trajectory. */
export function branchPoints(points, tail) {
  if (tail.length === 0) return tail;
  const before = points.filter((point) => point.step < tail[0].step);
  return [...before.slice(-1), ...tail];
}

/** Runs of points that have both limits, as closed outlines: a band must not bridge a gap. */
export function bandSegments(series) {
  const segments = [];
  let current = null;
  series.steps.forEach((step, i) => {
    if (isNumber(series.low?.[i]) && isNumber(series.high?.[i])) {
      current ??= { steps: [], low: [], high: [] };
      current.steps.push(step);
      current.low.push(series.low[i]);
      current.high.push(series.high[i]);
    } else if (current !== null) {
      segments.push(current);
      current = null;
    }
  });
  if (current !== null) segments.push(current);
  return segments.filter((segment) => segment.steps.length > 1);
}

/** Mean over a centred window that shrinks at both ends; absent values are left out, not counted as 0. */
export function rollingMean(values, window) {
  const half = Math.floor(window / 2);
  return values.map((_, i) => {
    const reach = Math.min(half, i, values.length - 1 - i);
    const inside = values.slice(i - reach, i + reach + 1).filter(isNumber);
    return inside.length === 0 ? null : inside.reduce((sum, value) => sum + value, 0) / inside.length;
  });
}

/** Points of a sparkline in a box, y growing downwards; `low` and `high` are the ends of the value axis. */
export function sparklinePoints({ steps, values }, { width, height, low, high, inset = 3 }) {
  const usable = steps.map((step, i) => [step, values[i]]).filter(([, value]) => isNumber(value));
  if (usable.length === 0) return [];
  const first = usable[0][0];
  const span = usable[usable.length - 1][0] - first;
  return usable.map(([step, value]) => {
    const share = span === 0 ? 1 : (step - first) / span;
    return [inset + share * (width - 2 * inset), sparklineY(value, { height, low, high, inset })];
  });
}

export function sparklineY(value, { height, low, high, inset = 3 }) {
  const clipped = Math.min(high, Math.max(low, value));
  return inset + ((high - clipped) / (high - low)) * (height - 2 * inset);
}
