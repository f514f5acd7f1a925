import assert from "node:assert/strict";
import test from "node:test";

import {
  ENOUGH_HITS,
  PAGE_SIZE,
  RolloutData,
} from "../../frontend/collapsewatch_frontend/static/js/rollout_data.js";

const CHOICE = {
  step: 4,
  index: 0,
  attempt: "",
  group: "",
  order: "index",
  text: "",
  where: "response",
};

/** A network that notes what it was asked, and answers from `answers`. */
function network(answers = {}) {
  const asked = [];
  const answer =
    (name, usual) =>
    (runId, ...rest) => {
      asked.push([name, ...rest]);
      return Promise.resolve((answers[name] ?? usual)(...rest));
    };
  return {
    asked,
    names: () => asked.map(([name]) => name),
    getRun: answer("run", () => ({ name: "r" })),
    getRollouts: answer("list", ({ step }) => ({ step: step ?? 9, rollouts: [{ index: 0 }], num_found: 1 })),
    getRollout: answer("trace", (step, index) => ({ step, index })),
    getTemplate: answer("template", () => ({ is_complete: true })),
    searchRollouts: answer("search", () => ({
      hits: [],
      next: null,
      num_rollouts: 1,
      num_steps: 1,
      unreadable_steps: [],
      num_removed_steps: 0,
    })),
  };
}

const dataOf = (api, onChange = () => {}) => new RolloutData(api, "r", onChange, { wait: async () => {} });

test("what is there is not loaded again until it may have changed", async () => {
  const api = network();
  const data = dataOf(api);
  await data.show(CHOICE);
  assert.deepEqual(api.names().sort(), ["list", "run", "template", "trace"]);
  await data.show({ ...CHOICE, index: 1 });
  assert.deepEqual(api.asked.at(-1), ["trace", 4, 1, { attempt: "" }]);
  assert.equal(api.asked.length, 5);
  await data.show({ ...CHOICE, index: 1 }, { again: true });
  assert.equal(api.asked.length, 9);
});

test("nothing of another step is shown while the next one is loaded", async () => {
  const seen = [];
  const data = dataOf(network(), () => seen.push([data.list.value?.step, data.trace.value?.step]));
  await data.show(CHOICE);
  seen.length = 0;
  const loading = data.show({ ...CHOICE, step: 5 });
  assert.deepEqual([data.list.value, data.trace.value, data.template.value], [null, null, null]);
  await loading;
  assert.ok(seen.every((steps) => !steps.includes(4)));
  assert.equal(data.list.value.step, 5);
});

test("an answer that comes after the next question is nobody's", async () => {
  const answers = [];
  const api = network({ trace: (step, index) => new Promise((done) => answers.push(() => done({ index }))) });
  const data = dataOf(api);
  const first = data.show(CHOICE);
  const second = data.show({ ...CHOICE, index: 1 });
  answers[1]();
  await second;
  answers[0]();
  await first;
  assert.equal(data.trace.value.index, 1);
});

test("without a step the last one is shown, and its list is not asked for twice", async () => {
  const api = network();
  const data = dataOf(api);
  await data.show({ ...CHOICE, step: null, index: null });
  assert.deepEqual(api.names().sort(), ["list", "run"]);
  const settled = { ...CHOICE, step: 9 };
  data.settle(settled);
  await data.show(settled);
  assert.deepEqual(api.names().sort(), ["list", "run", "template", "trace"]);
});

test("a batch that arrives opens the way to its step, and nothing is loaded for it", async () => {
  const list = () => ({
    step: 4,
    first_step: 2,
    previous_step: 2,
    next_step: null,
    last_step: 4,
    rollouts: [{ index: 0 }],
    num_found: 1,
  });
  const api = network({ list });
  const data = dataOf(api);
  await data.show(CHOICE);
  const { length } = api.asked;
  const places = () => {
    const { first_step: first, previous_step: previous, next_step: next, last_step: last } = data.list.value;
    return [first, previous, next, last];
  };
  data.sawBatch(9);
  assert.deepEqual(places(), [2, 2, 9, 9]);
  data.sawBatch(7);
  data.sawBatch(12);
  assert.deepEqual(places(), [2, 2, 7, 12]);
  data.sawBatch(3);
  data.sawBatch(1);
  data.sawBatch(4);
  assert.deepEqual(places(), [1, 3, 7, 12]);
  assert.equal(api.asked.length, length);
});

test("a long list comes in pages", async () => {
  const rows = ({ offset }) => ({
    step: 4,
    num_found: 450,
    rollouts: Array.from({ length: Math.min(PAGE_SIZE, 450 - offset) }, (_, i) => ({ index: offset + i })),
  });
  const data = dataOf(network({ list: rows }));
  await data.show(CHOICE);
  assert.equal(data.list.value.rollouts.length, PAGE_SIZE);
  await data.more(CHOICE);
  await data.more(CHOICE);
  assert.deepEqual(
    data.list.value.rollouts.map(({ index }) => index),
    Array.from({ length: 450 }, (_, i) => i),
  );
});

test("a template is asked for until it is complete", async () => {
  let calls = 0;
  const data = dataOf(network({ template: () => ({ is_complete: (calls += 1) === 3 }) }));
  await data.show(CHOICE);
  assert.equal(calls, 3);
  assert.equal(data.template.value.is_complete, true);
});

const stretch = (num, next) => ({
  hits: Array.from({ length: num }, (_, index) => ({ index })),
  next,
  num_rollouts: 10,
  num_steps: 2,
  unreadable_steps: num === 0 ? [7] : [],
  num_removed_steps: 3,
});

test("a search goes on until it has enough, and from there on when asked", async () => {
  const found = ({ from_step: from }) =>
    from === undefined
      ? stretch(0, { step: 8, index: 0 })
      : from === 8
        ? stretch(ENOUGH_HITS, { step: 3, index: 2 })
        : stretch(1, null);
  const api = network({ search: found });
  const data = dataOf(api);
  const choice = { ...CHOICE, text: "key" };
  await data.show(choice);
  assert.equal(data.search.hits.length, ENOUGH_HITS);
  assert.deepEqual(data.search.next, { step: 3, index: 2 });
  const { numSteps, numRollouts, unreadable, removed, isRunning } = data.search;
  assert.deepEqual([numSteps, numRollouts, unreadable, removed, isRunning], [4, 20, 1, 6, false]);
  await data.searchOn(choice);
  assert.deepEqual([data.search.hits.length, data.search.next], [ENOUGH_HITS + 1, null]);
  const [, wanted] = api.asked.filter(([name]) => name === "search").at(-1);
  assert.deepEqual([wanted.q, wanted.from_step, wanted.from_index], ["key", 3, 2]);
  // Moving to a hit begins no new search, another text does.
  await data.show({ ...choice, index: 1 });
  assert.equal(data.search.hits.length, ENOUGH_HITS + 1);
  await data.show({ ...choice, text: "" });
  assert.equal(data.search.hits.length, 0);
});

test("hits of a text that is no longer looked for are dropped", async () => {
  const answers = [];
  const data = dataOf(network({ search: () => new Promise((done) => answers.push(done)) }));
  const first = data.show({ ...CHOICE, text: "old" });
  const second = data.show({ ...CHOICE, text: "new" });
  answers[1](stretch(2, null));
  await second;
  answers[0](stretch(5, null));
  await first;
  assert.equal(data.search.hits.length, 2);
  assert.equal(data.search.isRunning, false);
});

test("a busy server is asked again, and any other error is shown", async () => {
  let calls = 0;
  const busy = () => {
    calls += 1;
    if (calls < 3) throw Object.assign(new Error("busy"), { status: 429 });
    return { index: 0 };
  };
  const data = dataOf(network({ trace: busy }));
  await data.show(CHOICE);
  assert.deepEqual([calls, data.trace.error], [3, null]);
  const gone = dataOf(
    network({
      list: () => {
        throw Object.assign(new Error("gone"), { status: 404 });
      },
    }),
  );
  await gone.show(CHOICE);
  assert.equal(gone.list.error.message, "gone");
  assert.equal(gone.trace.value.index, 0);
});
