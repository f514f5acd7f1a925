import assert from "node:assert/strict";
import test from "node:test";

import { gradientFigure } from "../../frontend/collapsewatch_frontend/static/js/figures/gradients.js";
import {
  gradientPoints,
  gradientStep,
  hasGradients,
  isBucketScalar,
} from "../../frontend/collapsewatch_frontend/static/js/gradients.js";
import { TRAINER, trainerPanels } from "../../frontend/collapsewatch_frontend/static/js/panels.js";
import { RunData, WISH } from "../../frontend/collapsewatch_frontend/static/js/run_data.js";
import { THEME, series } from "./helpers.js";

const bucket = (name, variance) => ({
  name,
  num_groups: 4,
  reward_variance: variance,
  reward_std: Math.sqrt(variance),
  reward: 0.5,
});
const BUCKETS = [bucket("Q1", 0), bucket("Q2", 0.04), bucket("Q3", 0.25)];
const TRAINER_SERIES = {
  kl: series([5, 9], [1, 1]),
  "grad_norm_task/q1": series([4, 5], [0.01, 0.02]),
  "grad_norm_task/q3": series([4, 5], [0.8, 0.9]),
  "grad_norm_reg/q1": series([5], [0.3]),
  "score_norm_sq/q1": series([5], [9]),
  "score_norm_sq/q3": series([5], [4]),
};

test("bucket scalars are known by their exact names", () => {
  for (const name of ["grad_norm_task/q1", "grad_norm_reg/q6", "score_norm_sq/q3"]) {
    assert.equal(isBucketScalar(name), true, name);
  }
  for (const name of ["grad_norm_task", "grad_norm_task/q0", "grad_norm_task/q7", "a/grad_norm_task/q1"]) {
    assert.equal(isBucketScalar(name), false, name);
  }
});

test("bucket scalars stay out of the plain charts and are not counted as left out", () => {
  const { panels, left } = trainerPanels(Object.keys(TRAINER_SERIES));
  assert.deepEqual(
    panels.map((panel) => panel.metric),
    ["kl"],
  );
  assert.equal(left, 0);
});

test("the newest step counts that is scored already", () => {
  assert.equal(gradientStep(TRAINER_SERIES, 9), 5);
  assert.equal(gradientStep(TRAINER_SERIES, 4), 4);
  assert.equal(gradientStep(TRAINER_SERIES, 1), 5);
  assert.equal(gradientStep(TRAINER_SERIES, null), 5);
  assert.equal(gradientStep({ kl: series([1], [1]) }, 9), null);
  assert.equal(hasGradients({ "score_norm_sq/q1": series([1], [1]) }), false);
});

test("points meet the buckets of the same name, and the bound is √RV · √E‖score‖²", () => {
  assert.deepEqual(gradientPoints(TRAINER_SERIES, 5, BUCKETS), [
    { name: "Q1", numGroups: 4, x: 0, task: 0.02, regularisation: 0.3, bound: 0 },
    { name: "Q3", numGroups: 4, x: 0.5, task: 0.9, regularisation: null, bound: 0.5 * 2 },
  ]);
  assert.equal(gradientPoints(TRAINER_SERIES, 4, BUCKETS)[1].bound, null);
  assert.deepEqual(gradientPoints(TRAINER_SERIES, 5, []), []);
});

test("the figure draws what is there, from the smallest spread to the largest", () => {
  const points = gradientPoints(TRAINER_SERIES, 5, [...BUCKETS].reverse());
  const { data, layout } = gradientFigure({ points, theme: THEME });
  assert.deepEqual(
    data.map((trace) => [trace.name, trace.x, trace.y]),
    [
      ["bound on the task’s", [0, 0.5], [0, 1]],
      ["regularisation", [0], [0.3]],
      ["task", [0, 0.5], [0.02, 0.9]],
    ],
  );
  assert.equal(layout.yaxis.rangemode, "tozero");
  const without = gradientFigure({ points: gradientPoints(TRAINER_SERIES, 4, BUCKETS), theme: THEME });
  assert.deepEqual(
    without.data.map((trace) => trace.name),
    ["task"],
  );
});

/** A run scored to step `scored` whose trainer logged norms at `logged`. */
function fakeApi(scored, logged) {
  const asked = [];
  const notScored = () => Object.assign(new Error("not scored"), { status: 404 });
  return {
    asked,
    getRun: async () => ({
      regime: { scope: "first_turn", regime: "indeterminate", reason: "", step: scored },
      scopes: ["first_turn", "trainer"],
      metrics: { trainer: ["grad_norm_task/q1"] },
      jobs: {},
    }),
    getSeries: async () => ({ "grad_norm_task/q1": series([logged], [1]) }),
    getTrajectory: async () => ({ points: [], thresholds: null, baseline: null }),
    getAlerts: async () => [],
    getStep: async (_, step) => {
      asked.push(step);
      if (step > scored) throw notScored();
      return { step, buckets: { quantile: BUCKETS } };
    },
  };
}

test("the buckets are those of the step whose norms are drawn", async () => {
  for (const [scored, logged, asked, found] of [
    [9, 9, [9], 9],
    [9, 5, [9, 5], 5],
    [4, 5, [4, 5], null],
  ]) {
    const api = fakeApi(scored, logged);
    const data = new RunData(api, "r");
    await data.load(new Set([WISH.all]));
    assert.deepEqual(api.asked, asked);
    assert.equal(data.bucketStep?.step ?? null, found);
    assert.ok(data.series[TRAINER]["grad_norm_task/q1"]);
  }
});
