import assert from "node:assert/strict";
import test from "node:test";

import { StepDetail } from "../../frontend/collapsewatch_frontend/static/js/step_detail.js";

const answer = (step) => ({ step, evaluation: { scope: "first_turn" }, filters: [{ rule: "top" }] });

function dataOf(newest) {
  const points = Array.from({ length: newest + 1 }, (_, step) => ({ step }));
  return { scope: "first_turn", scorer: "", step: answer(newest), shownTrajectory: () => ({ points }) };
}

function bookOf({ hold = {} } = {}) {
  const asked = [];
  return {
    asked,
    step: async (step) => {
      asked.push(`step ${step}`);
      await hold[step];
      return answer(step);
    },
    kept: async (step) => {
      asked.push(`kept ${step}`);
      return { step };
    },
  };
}

const NEWEST = { selected: null, against: null, withKept: false };

test("the newest step is here already, and others are asked for", async () => {
  const book = bookOf();
  const detail = new StepDetail(book);
  const data = dataOf(9);
  assert.equal(await detail.load({ ...NEWEST, data }), true);
  assert.equal(detail.shown.step, data.step);
  assert.equal(await detail.load({ ...NEWEST, data }), false);
  await detail.load({ ...NEWEST, data, selected: 4, against: 2 });
  assert.deepEqual([detail.shown.step.step, detail.shown.then.step], [4, 2]);
  assert.deepEqual(book.asked, ["step 4", "step 2"]);
});

test("an answer that comes after a later question is dropped", async () => {
  let release;
  const book = bookOf({ hold: { 3: new Promise((resolve) => (release = resolve)) } });
  const detail = new StepDetail(book);
  const data = dataOf(9);
  const slow = detail.load({ ...NEWEST, data, selected: 3 });
  await detail.load({ ...NEWEST, data, selected: 5 });
  release();
  assert.equal(await slow, false);
  assert.equal(detail.shown.step.step, 5);
});

test("while a run goes on, what filters kept is read only now and then", async () => {
  let time = 100_000;
  const book = bookOf();
  const detail = new StepDetail(book, { now: () => time });
  const follow = (newest) => detail.load({ ...NEWEST, data: dataOf(newest), withKept: true });
  await follow(5);
  time += 10_000;
  await follow(6);
  assert.equal(detail.shown.kept.step, 5);
  time += 10_000;
  await follow(7);
  assert.equal(detail.shown.kept.step, 7);
  // A step that a person chose is read at once.
  await detail.load({ ...NEWEST, data: dataOf(8), withKept: true, selected: 2 });
  assert.equal(detail.shown.kept.step, 2);
  assert.deepEqual(book.asked, ["kept 5", "kept 7", "step 2", "kept 2"]);
});

test("before any step there is nothing to show", async () => {
  const detail = new StepDetail(bookOf());
  const data = { ...dataOf(0), step: null, shownTrajectory: () => ({ points: [] }) };
  assert.equal(await detail.load({ ...NEWEST, data, against: 4, withKept: true }), false);
  assert.deepEqual(detail.shown, { step: null, then: null, kept: null });
});
