import assert from "node:assert/strict";
import test from "node:test";

import {
  bandSegments,
  branch,
  branchPoints,
  isEmpty,
  mergePoints,
  mergeScope,
  mergeSeries,
  newest,
  rollingMean,
  sparklinePoints,
  sparklineY,
  stepRange,
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
