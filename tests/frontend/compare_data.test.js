import assert from "node:assert/strict";
import test from "node:test";

import { ALL, CompareData, newsOf } from "../../frontend/collapsewatch_frontend/static/js/compare_data.js";

const CHOICE = { scope: "", axis: "step", groupBy: [], added: [] };

function runOf(runId, { scopes = ["first_turn"], metrics = {} } = {}) {
  return {
    run_id: runId,
    name: runId,
    scopes,
    metrics: { first_turn: ["mi_seq"], trainer: ["kl"], ...metrics },
    absent: {},
  };
}

/** An API that answers of these runs and keeps what it was asked. */
function fakeApi(runs, { missing = [] } = {}) {
  const asked = [];
  const version = { value: 1 };
  return {
    asked,
    version,
    async getComparison(runIds, options) {
      asked.push(["runs", runIds, options]);
      const groups = options.groupBy.length > 0 ? [{ label: "all", run_ids: runIds }] : [];
      return { scope: options.scope, runs, missing, groups };
    },
    async getComparedPaths(runIds, options) {
      asked.push(["paths", runIds, options]);
      return { paths: runIds.map((run_id) => ({ run_id, steps: [version.value] })), groups: [] };
    },
    async getComparedSeries(runIds, options) {
      asked.push(["series", runIds, options]);
      const one = (run_id) => ({ run_id, steps: [0, version.value], values: [1, 2], places: null });
      return {
        series: Object.fromEntries(options.metrics.map((metric) => [metric, runIds.map(one)])),
        groups: {},
        unplaced: options.axis === "tokens" ? { b: "why" } : {},
      };
    },
  };
}

const kinds = (api) => api.asked.map(([kind]) => kind).sort();

test("a page loads where runs stand, then their ways and what its figures need", async () => {
  const api = fakeApi([runOf("a"), runOf("b")], { missing: ["c"] });
  const data = new CompareData(api, ["a", "b", "c"], CHOICE, { maxPoints: 400 });
  const parts = [];
  await data.load(new Set([ALL]), () => parts.push(data.shown.series.size));
  assert.deepEqual(kinds(api), ["paths", "runs", "series"]);
  assert.equal(parts[0], 0);
  const [, , options] = api.asked.find(([kind]) => kind === "series");
  assert.deepEqual([options.scope, options.metrics, options.maxPoints], ["first_turn", ["mi_seq"], 400]);
  assert.deepEqual(data.missing, ["c"]);
  assert.deepEqual(data.seriesOf("scored", "mi_seq", "b").steps, [0, 1]);
  assert.equal(data.seriesOf("scored", "gone", "b"), undefined);
  assert.deepEqual(data.placeRange(), [0, 1]);
});

test("news of one run bring that run alone", async () => {
  const api = fakeApi([runOf("a"), runOf("b")]);
  const data = new CompareData(api, ["a", "b"], CHOICE);
  await data.load(new Set([ALL]));
  api.asked.length = 0;
  api.version.value = 2;
  await data.load(new Set([newsOf("b")]));
  assert.deepEqual(api.asked.find(([kind]) => kind === "series")[1], ["b"]);
  assert.deepEqual(data.seriesOf("scored", "mi_seq", "a").steps, [0, 1]);
  assert.deepEqual(data.seriesOf("scored", "mi_seq", "b").steps, [0, 2]);
});

test("the mean of a group needs all of its runs", async () => {
  const api = fakeApi([runOf("a"), runOf("b")]);
  const data = new CompareData(api, ["a", "b"], { ...CHOICE, groupBy: ["*"] });
  await data.load(new Set([ALL]));
  api.asked.length = 0;
  await data.load(new Set([newsOf("b")]));
  assert.deepEqual(api.asked.find(([kind]) => kind === "series")[1], ["a", "b"]);
  assert.equal(data.shown.groups.length, 1);
});

test("what is shown stays as it is until another choice is here as a whole", async () => {
  const api = fakeApi([runOf("a"), runOf("b")]);
  const data = new CompareData(api, ["a", "b"], CHOICE);
  await data.load(new Set([ALL]));
  data.choice = { ...CHOICE, axis: "tokens", added: ["trainer:kl"] };
  const seen = [];
  await data.load(new Set(["choice"]), () =>
    seen.push([data.shown.axis, data.shown.series.has("trainer:kl")]),
  );
  assert.deepEqual(seen, [
    ["step", false],
    ["tokens", true],
  ]);
  assert.deepEqual(data.shown.unplaced, { b: "why" });
  data.choice = CHOICE;
  await data.load(new Set(["choice"]));
  assert.deepEqual(data.shown.unplaced, {});
});

test("a run that was never scored in first turns is compared in a scope that there is", async () => {
  const api = fakeApi([runOf("a", { scopes: ["trajectory"], metrics: { trajectory: ["mi_seq"] } })]);
  const data = new CompareData(api, ["a"], CHOICE);
  await data.load(new Set([ALL]));
  assert.equal(data.scope, "trajectory");
  assert.deepEqual(
    api.asked.filter(([kind]) => kind === "runs").map(([, , { scope }]) => scope),
    ["first_turn", "trajectory"],
  );
});

test("a part of the axis is shown in full between what is known of the rest", async () => {
  const api = fakeApi([runOf("a")]);
  const data = new CompareData(api, ["a"], CHOICE);
  await data.load(new Set([ALL]));
  const whole = { run_id: "a", steps: [0, 10, 20, 30], values: [0, 1, 2, 3], places: null, low: null };
  const part = { run_id: "a", steps: [8, 11, 12, 19, 21], values: [9, 5, 6, 7, 9], places: null, low: null };
  const answer = { series: { mi_seq: [part] }, groups: {}, unplaced: {} };
  data.shown.series.get("scored:mi_seq").runs.set("a", whole);
  api.getComparedSeries = async (_, options) => {
    assert.deepEqual(options.range, [10.5, 19.5]);
    return answer;
  };
  await data.loadDetail([10.5, 19.5]);
  const shown = data.seriesOf("scored", "mi_seq", "a");
  assert.deepEqual(
    [shown.steps, shown.values, shown.low],
    [[0, 10, 11, 12, 19, 20, 30], [0, 1, 5, 6, 7, 2, 3], null],
  );
  answer.series.mi_seq = [];
  await data.loadDetail([10.5, 19.5]);
  assert.deepEqual(data.seriesOf("scored", "mi_seq", "a"), whole);
  await data.loadDetail(null);
  assert.deepEqual(data.seriesOf("scored", "mi_seq", "a"), whole);
});

test("the mean of a group is shown in full as well", async () => {
  const data = new CompareData(fakeApi([runOf("a")]), ["a"], CHOICE);
  await data.load(new Set([ALL]));
  const groupOf = (places) => ({ group: 0, places, mean: places.map((place) => place / 10) });
  data.shown.series.set("scored:mi_seq", { runs: new Map(), groups: [groupOf([0, 10, 20])] });
  data.detail = {
    range: [5, 15],
    series: new Map([["scored:mi_seq", { runs: new Map(), groups: [groupOf([9, 11])] }]]),
  };
  assert.deepEqual(data.groupSeries("scored", "mi_seq")[0].places, [0, 9, 11, 20]);
});

test("a load that fails leaves what is shown", async () => {
  const api = fakeApi([runOf("a")]);
  const data = new CompareData(api, ["a"], CHOICE);
  await data.load(new Set([ALL]));
  api.getComparedSeries = async () => {
    throw new Error("away");
  };
  await assert.rejects(data.load(new Set([ALL])), /away/);
  assert.deepEqual(data.seriesOf("scored", "mi_seq", "a").steps, [0, 1]);
});

test("what stands on top is asked for before anything is drawn, and the rest once it is here", async () => {
  const run = runOf("a", { metrics: { batch: ["reward"] } });
  const api = fakeApi([run]);
  const told = [];
  const data = new CompareData(api, ["a"], CHOICE, {
    onAsked: () => told.push(["asked", ...kinds(api)]),
  });
  await data.load(new Set([ALL]), () => told.push(["drawn"]));
  assert.deepEqual(told[0], ["asked", "paths", "runs", "series"]);
  assert.deepEqual(told[1], ["drawn"]);
  assert.equal(api.asked[3][2].scope, "batch");
});
