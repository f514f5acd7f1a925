import assert from "node:assert/strict";
import test from "node:test";

import { scoringDifference } from "../../frontend/collapsewatch_frontend/static/js/compare.js";

const run = ({ scorer, sampling, ...more } = {}) => ({
  scorer: { kind: "policy", label: "policy checkpoint {step}", is_policy: true, retokenised: false, ...scorer },
  scope: "first_turn",
  sampling: { num_samples: null, every_steps: 1, is_probe: false, num_rows: 64, seed: 0, ...sampling },
  temperature: 1,
  template: "<think>…</think>",
  ...more,
});
const keys = (...runs) => scoringDifference(runs).map(({ key }) => key);

test("runs that were scored alike have no differences, whatever amount and seed they had", () => {
  assert.deepEqual(keys(run(), run({ sampling: { num_rows: 32, seed: 9 } })), []);
});

test("another scorer is told with what it estimates", () => {
  const lexical = { kind: "lexical", label: "lexical group_centroid", is_policy: false };
  assert.deepEqual(scoringDifference([run(), run({ scorer: lexical })]), [
    { key: "scorer", values: ["policy checkpoint, one per step", "lexical group centroid"] },
    { key: "estimates", values: ["the policy’s own I(X;Z)", "a proxy"] },
  ]);
  assert.deepEqual(keys(run(), run({ scorer: { retokenised: true } })), ["tokens"]);
});

test("what else makes levels differ is told", () => {
  assert.deepEqual(keys(run(), run({ scope: "trajectory" })), ["scope"]);
  assert.deepEqual(keys(run(), run({ temperature: 0.7 })), ["temperature"]);
  assert.deepEqual(keys(run(), run({ template: "whole response" })), ["reasoning tags"]);
});

test("each rule by which a part is scored is told from every other", () => {
  const probe = { is_probe: true, num_probe_groups: 16 };
  const rules = [
    {},
    { num_samples: 64 },
    { every_steps: 5 },
    { ...probe, probe_key: "ab" },
    { ...probe, probe_key: "cd" },
    { by_trainer: true },
  ];
  const [{ key, values }] = scoringDifference(rules.map((sampling) => run({ sampling })));
  assert.equal(key, "part scored");
  assert.deepEqual(values, [
    "every reasoning",
    "at most 64 reasonings",
    "every 5th step",
    "probe set of 16 prompts (ab)",
    "probe set of 16 prompts (cd)",
    "chosen by the trainer",
  ]);
});

test("what is not known differs from nothing", () => {
  assert.deepEqual(keys(run(), { ...run(), scorer: null }), []);
  assert.deepEqual(keys(run(), { ...run(), sampling: null, temperature: null, template: null }), []);
  assert.deepEqual(keys(), []);
});
