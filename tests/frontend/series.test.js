import assert from "node:assert/strict";
import test from "node:test";

import {
  bandSegments,
  branch,
  branchPoints,
  isCutDown,
  isEmpty,
  mergePoints,
  mergeScope,
  mergeSeries,
  newest,
  rollingMean,
  sparklinePoints,
  sparklineY,
  stepRange,
  thinned,
  thinnedPoints,
  withDetail,
} from "../../frontend/collapsewatch_frontend/static/js/series.js";
import { series } from "./helpers.js";

test("a branch starts at the last point of its stem before it", () => {
  const stem = series([0, 5, 10], [1, 2, 3]);
  assert.deepEqual(branch(stem, series([10, 15], [7, 8])), { steps: [5, 10, 15], values: [2, 7, 8] });
  assert.deepEqual(branch(stem, series([0], [7])), { steps: [0], values: [7] });
  assert.deepEqual(branch(undefined, series([3], [7])), { steps: [3], values: [7] });
  assert.deepEqual(branch(stem, series([], [])).steps, []);
  const points = branchPoints([{ step: 1 }, { step: 4 }, { step: 9 }], [{ step: 9, old: true }]);
  assert.deepEqual(points, [{ step: 4 }, { step: 9, old: true }]);
  assert.deepEqual(branchPoints([{ step: 1 }], []), []);
});

test("an update is appended to what is there", () => {
  const merged = mergeSeries(
    series([0, 1], [0.5, 0.6], { low: [0.4, 0.5], high: [0.6, 0.7] }),
    series([2], [0.7], { low: [0.6], high: [0.8] }),
  );
  assert.deepEqual(merged, {
    steps: [0, 1, 2],
    values: [0.5, 0.6, 0.7],
    low: [0.4, 0.5, 0.6],
    high: [0.6, 0.7, 0.8],
  });
});

test("a late step replaces everything from it on", () => {
  const merged = mergeSeries(series([0, 2, 3], [1, 2, 3]), series([1, 2, 3], [10, 20, 30]));
  assert.deepEqual(merged.steps, [0, 1, 2, 3]);
  assert.deepEqual(merged.values, [1, 10, 20, 30]);
});

test("a step that comes again replaces its old value", () => {
  const merged = mergeSeries(series([0, 1], [1, 2]), series([1, 2], [20, 30]));
  assert.deepEqual(merged.steps, [0, 1, 2]);
  assert.deepEqual(merged.values, [1, 20, 30]);
});

test("an empty update changes nothing, and merging leaves its inputs alone", () => {
  const before = series([0, 1], [1, 2]);
  assert.equal(mergeSeries(before, series([], [])), before);
  mergeSeries(before, series([1], [9]));
  assert.deepEqual(before, series([0, 1], [1, 2]));
});

test("missing limits count as unknown", () => {
  const merged = mergeSeries(series([0], [1]), series([1], [2], { low: [1.5], high: [2.5] }));
  assert.deepEqual(merged.low, [null, 1.5]);
});

test("a scope takes over new series and keeps those without news", () => {
  const merged = mergeScope({ a: series([0], [1]) }, { b: series([1], [2]) });
  assert.deepEqual(Object.keys(merged), ["a", "b"]);
  assert.deepEqual(merged.a.values, [1]);
});

test("trajectory points stay in step order and the update wins", () => {
  const merged = mergePoints(
    [
      { step: 1, dependence: 0.5 },
      { step: 3, dependence: 0.6 },
    ],
    [
      { step: 2, dependence: 0.7 },
      { step: 3, dependence: 0.8 },
    ],
  );
  assert.deepEqual(
    merged.map((point) => [point.step, point.dependence]),
    [
      [1, 0.5],
      [2, 0.7],
      [3, 0.8],
    ],
  );
});

test("the newest value skips absent ones and carries its interval", () => {
  assert.deepEqual(
    newest(series([0, 1, 2], [0.5, 0.6, null], { low: [0.4, 0.5, null], high: [0.6, 0.7, null] })),
    {
      step: 1,
      value: 0.6,
      low: 0.5,
      high: 0.7,
    },
  );
  assert.equal(newest(series([], [])), null);
  assert.equal(newest(undefined), null);
});

test("a series of absent values is empty, one with a zero is not", () => {
  assert.equal(isEmpty(series([0], [null])), true);
  assert.equal(isEmpty(series([0], [0])), false);
});

test("one time axis spans all series", () => {
  assert.deepEqual(stepRange([series([5, 9], [1, 1]), undefined, series([2], [1]), series([], [])]), [2, 9]);
  assert.equal(stepRange([undefined]), null);
});

test("a band does not bridge steps without an interval", () => {
  const segments = bandSegments(
    series([0, 1, 2, 3, 4], [1, 1, 1, 1, 1], { low: [0, 0, null, 0, 0], high: [2, 2, null, 2, 2] }),
  );
  assert.deepEqual(
    segments.map((segment) => segment.steps),
    [
      [0, 1],
      [3, 4],
    ],
  );
});

test("the rolling mean keeps both ends in place and leaves absent values out", () => {
  assert.deepEqual(rollingMean([1, 2, 3, 10], 3), [1, 2, 5, 10]);
  assert.deepEqual(rollingMean([1, null, 3], 3), [1, 2, 3]);
  assert.deepEqual(rollingMean([null], 3), [null]);
});

test("a sparkline fills its box, higher values higher up", () => {
  const box = { width: 106, height: 26, low: 0, high: 1 };
  const points = sparklinePoints(series([0, 5, 10], [0, 0.5, 1]), box);
  assert.deepEqual(points, [
    [3, 23],
    [53, 13],
    [103, 3],
  ]);
});

test("values beyond the axis stay inside the sparkline", () => {
  assert.equal(sparklineY(7, { height: 26, low: 0, high: 1 }), 3);
  assert.equal(sparklineY(-7, { height: 26, low: 0, high: 1 }), 23);
});

test("a stretch in full takes the place of what was cut down, and only there", () => {
  const whole = { ...series([0, 10, 20, 30, 40], [0, 1, 2, 3, 4]), num_points: 41 };
  const detail = series([10, 11, 12, 20], [9, 8, 7, 6], { low: [1, 1, 1, 1], high: [9, 9, 9, 9] });
  const shown = withDetail(whole, detail);
  assert.deepEqual(shown.steps, [0, 10, 11, 12, 20, 30, 40]);
  assert.deepEqual(shown.values, [0, 9, 8, 7, 6, 3, 4]);
  assert.deepEqual(shown.low, [null, 1, 1, 1, 1, null, null]);
  assert.ok(isCutDown(shown), "elsewhere there is still more");
  assert.equal(withDetail(whole, series([], [])), whole);
  assert.deepEqual(withDetail(series([5], [1]), series([1, 2], [3, 4])).steps, [1, 2, 5]);
});

test("news of a cut-down series leave it cut down", () => {
  const whole = { ...series([0, 50, 99], [1, 2, 3]), num_points: 100 };
  const merged = mergeSeries(whole, { ...series([99, 100], [4, 5]), num_points: 2 });
  assert.deepEqual(merged.steps, [0, 50, 99, 100]);
  assert.ok(isCutDown(merged));
  assert.ok(!isCutDown(mergeSeries(series([0], [1]), { ...series([1], [2]), num_points: 1 })));
});

test("a series that grew too long keeps its ends and every extreme", () => {
  const steps = Array.from({ length: 5000 }, (_, i) => i);
  const values = steps.map((step) => (step === 1234 ? 50 : step === 4321 ? -50 : Math.sin(step / 300)));
  const thin = thinned(series(steps, values, { low: values, high: values }), 100);
  assert.ok(thin.steps.length <= 100);
  assert.deepEqual([thin.steps[0], thin.steps.at(-1)], [0, 4999]);
  for (const step of [1234, 4321]) assert.ok(thin.steps.includes(step));
  assert.deepEqual(thin.values, thin.steps.map((step) => values[step]));
  assert.deepEqual(thin.low, thin.values);
  assert.ok(isCutDown(thin));
  const short = series([1, 2], [3, 4]);
  assert.equal(thinned(short, 100), short);
});

test("a series that is thinned again and again stays small and keeps its spike", () => {
  let held = series([0], [100]);
  for (let step = 1; step < 20_000; step += 1) {
    held = mergeSeries(held, { ...series([step], [step === 777 ? 9 : Math.random()]), num_points: 1 });
    if (held.steps.length > 200) held = thinned(held, 100);
  }
  assert.ok(held.steps.length <= 200);
  assert.equal(held.values[held.steps.indexOf(777)], 9);
  assert.deepEqual([held.steps[0], held.steps.at(-1)], [0, 19_999]);
});

test("a trajectory that grew too long keeps the extremes along both axes", () => {
  const points = Array.from({ length: 3000 }, (_, step) => ({
    step,
    dependence: step === 700 ? 1 : 0.5,
    diversity: step === 900 ? null : step === 1900 ? 3 : 1,
  }));
  const thin = thinnedPoints(points, 100);
  assert.ok(thin.length <= 100);
  for (const step of [0, 700, 1900, 2999]) assert.ok(thin.some((point) => point.step === step), String(step));
  assert.equal(thinnedPoints(points.slice(0, 5), 100).length, 5);
});
