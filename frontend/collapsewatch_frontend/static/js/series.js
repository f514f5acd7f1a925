/** Series of metric points, as the page holds them. Pure. */

import { isNumber } from "./format.js";

const COLUMNS = ["values", "low", "high"];

/** One series with `update` laid over it: steps at or after the update's first step are replaced. */
export function mergeSeries(series, update) {
  if (series === undefined || series.steps.length === 0) return copy(update);
  if (update.steps.length === 0) return series;
  const first = update.steps[0];
  let keep = series.steps.length;
  while (keep > 0 && series.steps[keep - 1] >= first) keep -= 1;
  const merged = { steps: [...series.steps.slice(0, keep), ...update.steps] };
  for (const column of COLUMNS) {
    merged[column] = [...padded(series, column).slice(0, keep), ...padded(update, column)];
  }
  return merged;
}

function padded(series, column) {
  return series[column] ?? series.steps.map(() => null);
}

function copy(series) {
  return {
    steps: [...series.steps],
    ...Object.fromEntries(COLUMNS.map((column) => [column, [...padded(series, column)]])),
  };
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
