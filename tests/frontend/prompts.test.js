import assert from "node:assert/strict";
import test from "node:test";

import {
  matchedPrompts,
  matrixDifference,
  orderedPrompts,
  promptRows,
  promptSkill,
  sortedRows,
} from "../../frontend/collapsewatch_frontend/static/js/prompts.js";
import {
  StepBook,
  neighbours,
  scoredStep,
} from "../../frontend/collapsewatch_frontend/static/js/step_book.js";

const prompt = (id, accuracy, retrieved, extra = {}) => ({
  group_ids: [id],
  num_rows: 4,
  accuracy,
  chance: 1 / 3,
  preview: `where is ${id}`,
  retrieved,
  ...extra,
});
const STEP = {
  step: 9,
  evaluation: {
    prompts: [prompt("a", 1, [1, 0, 0]), prompt("b", 0.25, [0.75, 0.25, 0]), prompt("c", 0, [0.5, 0.5, 0])],
  },
  groups: [
    { group_id: "a", mean: 0.5, std: 0.5, cause: null },
    { group_id: "b", mean: 0, std: 0, cause: "too_hard" },
  ],
  filters: [
    { rule: "top", kept_group_ids: ["a"], num_groups: 2 },
    { rule: "all", kept_group_ids: ["a", "b"], num_groups: 2 },
  ],
};
const KEPT = {
  groups: [
    { group_id: "a", num_seen: 9, all_fail_since: null, last_kept: { top: 9, all: 9 } },
    { group_id: "b", num_seen: 9, all_fail_since: 4, last_kept: { top: null, all: 3 } },
  ],
};

test("a prompt's skill is 0 at chance and 1 when all its reasonings fit it", () => {
  assert.equal(promptSkill({ accuracy: 0.25, chance: 0.25 }), 0);
  assert.equal(promptSkill({ accuracy: 1, chance: 0.25 }), 1);
  assert.equal(promptSkill({ accuracy: 1, chance: 1 }), null);
});

test("a row tells what its reasonings fit, what attracts others, and which rule keeps it", () => {
  const [a, b, c] = promptRows(STEP, { kept: KEPT });
  assert.deepEqual(a.fits, { number: 1, share: 1 });
  assert.deepEqual(b.fits, { number: 1, share: 0.75 });
  // Of the 8 reasonings of b and c, 3 and 2 fit a best.
  assert.equal(a.attracts, 5 / 8);
  assert.deepEqual(b.keptBy, [
    { rule: "top", kept: false },
    { rule: "all", kept: true },
  ]);
  assert.equal(a.variance, 0.25);
  assert.equal(b.cause, "too_hard");
  assert.deepEqual(b.history, { numSeen: 9, allFailSince: 4, lastKept: { top: null, all: 3 } });
  assert.deepEqual([c.reward, c.variance, c.history], [null, null, null]);
});

test("another step's prompt is found by its group, else by its text", () => {
  const then = {
    evaluation: {
      prompts: [
        prompt("b", 1, []),
        prompt("other", 1, [], { preview: "where is c" }),
        prompt("d", 1, [], { preview: "" }),
      ],
    },
  };
  const rows = promptRows(STEP, { then });
  assert.equal(rows[0].change, null);
  assert.ok(Math.abs(rows[1].change - (promptSkill({ accuracy: 0.25, chance: 1 / 3 }) - 1)) < 1e-12);
  assert.equal(rows[2].skillThen, 1);
});

test("without a matrix nothing is said of what fits", () => {
  const bare = {
    ...STEP,
    evaluation: { prompts: STEP.evaluation.prompts.map((one) => ({ ...one, retrieved: [] })) },
  };
  assert.deepEqual(
    promptRows(bare).map((row) => [row.fits, row.attracts]),
    Array(3).fill([null, null]),
  );
});

test("rows sort by what a column says, unknown values last, starved prompts first", () => {
  const rows = promptRows(STEP, { kept: KEPT });
  const numbers = (order, options) => sortedRows(rows, order, options).map((row) => row.number);
  assert.deepEqual(numbers("skill"), [3, 2, 1]);
  assert.deepEqual(numbers("skill", { reverse: true }), [1, 2, 3]);
  assert.deepEqual(numbers("attracts"), [1, 2, 3]);
  assert.deepEqual(numbers("variance"), [1, 2, 3]);
  assert.deepEqual(numbers("kept", { rule: "top" }), [2, 1, 3]);
  assert.deepEqual(numbers("kept", { rule: "top", reverse: true }), [1, 2, 3]);
  assert.deepEqual(numbers("change"), [1, 2, 3]);
});

test("a matrix in another order keeps each cell with its two prompts", () => {
  const ordered = orderedPrompts(STEP.evaluation.prompts, [3, 1, 2]);
  assert.deepEqual(
    ordered.map((one) => one.number),
    [3, 1, 2],
  );
  assert.deepEqual(ordered[2].retrieved, [0, 0.75, 0.25]);
});

test("the other step's matrix takes this one's places, and the change is cell by cell", () => {
  const then = [prompt("c", 1, [1, 0, 0]), prompt("a", 1, [0, 1, 0]), prompt("b", 1, [0, 0.5, 0.5])];
  const matched = matchedPrompts(STEP.evaluation.prompts, then);
  assert.deepEqual(
    matched.map((one) => one.retrieved),
    [
      [1, 0, 0],
      [0.5, 0.5, 0],
      [0, 0, 1],
    ],
  );
  assert.deepEqual(
    matrixDifference(STEP.evaluation.prompts, matched).map((one) => one.retrieved),
    [
      [0, 0, 0],
      [0.25, -0.25, 0],
      [0.5, 0.5, -1],
    ],
  );
});

test("steps with other prompts have no common places", () => {
  const other = [prompt("a", 1, [1, 0, 0]), prompt("b", 1, [0, 1, 0]), prompt("x", 1, [0, 0, 1])];
  assert.equal(matchedPrompts(STEP.evaluation.prompts, other), null);
  assert.equal(matchedPrompts(STEP.evaluation.prompts, STEP.evaluation.prompts.slice(0, 2)), null);
});

test("the step asked for is the scored one at or before it", () => {
  const points = [{ step: 2 }, { step: 4 }, { step: 8 }];
  assert.equal(scoredStep(points, null), 8);
  assert.equal(scoredStep(points, 5), 4);
  assert.equal(scoredStep(points, 0), 2);
  assert.equal(scoredStep([], 3), null);
  assert.deepEqual(neighbours(points, 4), { before: 2, after: 8 });
  assert.deepEqual(neighbours(points, 2), { before: null, after: 4 });
  assert.deepEqual(neighbours(points, 8), { before: 4, after: null });
});

test("a step is read once, until news of it comes; one that is not there is told as null", async () => {
  const asked = [];
  const book = new StepBook(
    {
      getStep: async (...about) => {
        asked.push(about.join(" "));
        if (about[1] === 7) throw Object.assign(new Error("not there"), { status: 404 });
        return { step: about[1] };
      },
      getKept: async (_, step) => {
        asked.push(`kept ${step}`);
        return { step };
      },
    },
    "run",
  );
  assert.deepEqual(await book.step(5, "first_turn"), { step: 5 });
  await book.step(5, "first_turn");
  assert.equal(await book.step(7, "first_turn"), null);
  await book.kept(5);
  await book.kept(3);
  book.news(4);
  await book.step(5, "first_turn");
  await book.kept(3);
  await book.kept(5);
  assert.deepEqual(asked, ["run 5 first_turn", "run 7 first_turn", "kept 5", "kept 3", "kept 5"]);
  book.news(5);
  await book.step(5, "first_turn");
  assert.equal(asked.length, 6);
});

test("a failure that may pass is not remembered", async () => {
  let fails = true;
  const book = new StepBook(
    {
      getStep: async () => {
        if (fails) throw Object.assign(new Error("busy"), { status: 503 });
        return { step: 1 };
      },
    },
    "run",
  );
  await assert.rejects(book.step(1, "s"));
  fails = false;
  assert.deepEqual(await book.step(1, "s"), { step: 1 });
});
