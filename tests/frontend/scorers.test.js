import assert from "node:assert/strict";
import test from "node:test";

import { ofScorer, scorerSpans, scorersOf } from "../../frontend/collapsewatch_frontend/static/js/scorers.js";
import { series } from "./helpers.js";

const POINTS = [
  { step: 0, scorer: "lexical" },
  { step: 2, scorer: "lexical" },
  { step: 4, scorer: "policy" },
  { step: 6, scorer: "lexical" },
];

test("scorers are known by their stretches, the newest first", () => {
  assert.deepEqual(scorerSpans(POINTS), [
    { scorer: "lexical", from: 0, to: 2 },
    { scorer: "policy", from: 4, to: 4 },
    { scorer: "lexical", from: 6, to: 6 },
  ]);
  assert.deepEqual(scorersOf(POINTS), ["lexical", "policy"]);
  assert.deepEqual(scorersOf([]), []);
});

test("of a series only one scorer's points stay, with their limits", () => {
  const all = series([0, 1, 2, 4, 6], [1, 2, 3, 4, 5], { low: [0, 1, 2, 3, 4], high: null, num_points: 9 });
  const spans = scorerSpans(POINTS);
  const own = ofScorer(all, spans, "lexical");
  assert.deepEqual(
    [own.steps, own.values, own.low],
    [
      [0, 1, 2, 6],
      [1, 2, 3, 5],
      [0, 1, 2, 4],
    ],
  );
  assert.deepEqual(ofScorer(all, spans, "policy").steps, [4]);
  assert.equal(ofScorer(all, spans, ""), all);
  assert.equal(ofScorer(all, spans, "somebody else"), all);
});
