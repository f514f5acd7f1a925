import assert from "node:assert/strict";
import test from "node:test";

import {
  COMPARED,
  addable,
  addedFigure,
  canonical,
  configDifference,
  configRows,
  flatConfig,
  questions,
  standsOut,
} from "../../frontend/collapsewatch_frontend/static/js/compare.js";
import {
  endColumns,
  endOf,
  groupingKeys,
  nextSort,
  sortedRuns,
} from "../../frontend/collapsewatch_frontend/static/js/compare_table.js";
import {
  elapsedTicks,
  formatElapsed,
  formatTokens,
  placeWords,
} from "../../frontend/collapsewatch_frontend/static/js/elapsed.js";
import { compareHref, parseRoute } from "../../frontend/collapsewatch_frontend/static/js/routes.js";
import { runStyle } from "../../frontend/collapsewatch_frontend/static/js/run_styles.js";

test("nested settings are compared by their path, whatever the order of their keys", () => {
  assert.deepEqual(flatConfig({ a: { b: 1, c: { d: [1, 2] } }, e: {} }), {
    "a.b": 1,
    "a.c.d": [1, 2],
    e: {},
  });
  assert.equal(canonical({ b: 1, a: { d: 2, c: 3 } }), canonical({ a: { c: 3, d: 2 }, b: 1 }));
  const configs = [
    { optimizer: { lr: 1e-6, betas: [0.9, 0.95] }, seed: 1 },
    { seed: 1, optimizer: { betas: [0.9, 0.95], lr: 5e-6 } },
  ];
  assert.deepEqual(configDifference(configs), [{ key: "optimizer.lr", values: [1e-6, 5e-6] }]);
  assert.deepEqual(
    configRows(configs).map(({ key, differs }) => [key, differs]),
    [
      ["optimizer.betas", false],
      ["optimizer.lr", true],
      ["seed", false],
    ],
  );
});

test("settings nested without end are cut where the server cuts them", () => {
  let deep = { x: 1 };
  for (let i = 0; i < 50; i += 1) deep = { x: deep };
  assert.deepEqual(Object.keys(flatConfig(deep)), ["x.x.x.x.x.x"]);
});

test("a setting that one run lacks differs from null and from nothing else", () => {
  assert.deepEqual(configDifference([{ a: null }, {}]), [{ key: "a", values: [null, undefined] }]);
});

test("what most runs do not have stands out, and nothing does where no value is the usual one", () => {
  assert.deepEqual(standsOut([1, 1, 2, 1]), [false, false, true, false]);
  assert.deepEqual(standsOut([1, 2]), [false, false]);
  assert.deepEqual(standsOut([undefined, "a", undefined]), [false, true, false]);
});

test("only what some run has is asked for, the large figures first and levels in a few points", () => {
  const runs = [
    {
      metrics: {
        first_turn: ["retrieval_accuracy", "mi_seq", "retrieval_skill", "other"],
        batch: ["reward"],
      },
    },
    { metrics: { first_turn: ["retrieval_chance"] } },
  ];
  assert.deepEqual(questions(COMPARED, runs, "scored", "first_turn"), [
    { metrics: ["retrieval_accuracy", "mi_seq"] },
    { metrics: ["retrieval_skill"] },
    { metrics: ["retrieval_chance"], maxPoints: 10 },
  ]);
  assert.deepEqual(questions(COMPARED, runs, "trainer", "trainer"), []);
});

test("any metric can be added, and none that is drawn already", () => {
  const runs = [{ metrics: { "turn/1": ["mi_seq", "mi_token"], trainer: ["kl", "success"] } }];
  assert.deepEqual(
    addable(runs, "turn/1", COMPARED).map(({ key }) => key),
    ["scored:mi_token", "trainer:kl"],
  );
  assert.deepEqual(addedFigure("trainer:perf/throughput:a"), {
    id: "added-trainer-perf/throughput:a",
    scope: "trainer",
    metric: "perf/throughput:a",
    title: "perf/throughput:a",
    key: "trainer:perf/throughput:a",
    isAdded: true,
  });
  for (const wrong of ["", "kl", "moon:kl", "trainer:", "batch:reward"])
    assert.equal(addedFigure(wrong), null);
});

const run = (name, value, last_step = 1) => ({
  name,
  last_step,
  ends: value === null ? {} : { first_turn: { mi_seq: { value } }, batch: { reward: { value: 1 } } },
});

test("runs are ordered by a column either way, with those that have no value last", () => {
  const runs = [run("b", 0.2, 9), run("a", null, 5), run("c", 0.1, 7)];
  const columns = endColumns(runs, "first_turn");
  const order = (sort) => sortedRuns(runs, sort, columns, "first_turn");
  assert.deepEqual(
    columns.map(({ key }) => key),
    ["scored:mi_seq", "batch:reward"],
  );
  assert.deepEqual(order("scored:mi_seq"), [2, 0, 1]);
  assert.deepEqual(order("-scored:mi_seq"), [0, 2, 1]);
  assert.deepEqual(order("name"), [1, 0, 2]);
  assert.deepEqual(order("-step"), [0, 2, 1]);
  for (const none of ["", "scored:gone", "constructor"]) assert.deepEqual(order(none), [0, 1, 2]);
  assert.deepEqual(
    ["", "name", "-name"].map((sort) => nextSort(sort, "name")),
    ["name", "-name", ""],
  );
});

test("values of another scope are those of the scope that is compared", () => {
  const there = { ends: { "turn/1": { mi_seq: { value: 3 } } } };
  const [column] = endColumns([there], "turn/1");
  assert.deepEqual(endOf(there, column, "turn/1"), { value: 3 });
  assert.deepEqual(endColumns([there], "first_turn"), []);
});

test("runs can be grouped by settings that differ", () => {
  assert.deepEqual(
    groupingKeys(
      configRows([
        { a: 1, b: 2 },
        { a: 1, b: 3, c: 4 },
      ]),
    ),
    ["b", "c"],
  );
});

test("the address holds all of the choice and gives it back", () => {
  const choice = {
    scope: "turn/0",
    axis: "tokens",
    groupBy: ["optimizer.lr", "a,b&c"],
    band: "range",
    hidden: ["r2"],
    added: ["trainer:loss/actor"],
    sort: "-scored:mi_seq",
    settings: "all",
    chart: "compare-mi",
  };
  const view = { smoothing: 0.6, log: true, axis: "step", range: [10, 20] };
  const route = parseRoute(compareHref(["r1", "r2"], { ...choice, view }));
  assert.deepEqual(route, { screen: "compare", runIds: ["r1", "r2"], ...choice, view });
  assert.equal(compareHref(["r1", "r2"]), "#/compare?runs=r1,r2");
  assert.equal(compareHref(["r1"], parseRoute("#/compare?runs=r1")), "#/compare?runs=r1");
});

test("an address that cannot be meant is the usual choice", () => {
  const route = parseRoute("#/compare?runs=a,,a,b&x=moon&band=wide&smooth=x&from=9&to=1&group=");
  assert.deepEqual(
    [route.runIds, route.axis, route.band, route.groupBy, route.view.smoothing, route.view.range],
    [["a", "b"], "step", "interval", [], 0, null],
  );
});

test("spans of time read as people say them", () => {
  assert.deepEqual([0, 2.5, 40, 60, 90, 3_600, 9_000, 86_400, 180_000, -90].map(formatElapsed), [
    "0 s",
    "2.5 s",
    "40 s",
    "1 min",
    "1 min 30 s",
    "1 h",
    "2 h 30 min",
    "1 d",
    "2 d 2 h",
    "−1 min 30 s",
  ]);
  assert.equal(formatElapsed(null), "–");
});

test("ticks of time stand at round places, and there are never too many", () => {
  assert.deepEqual(elapsedTicks([0, 7_000], 6), {
    tickvals: [0, 1_800, 3_600, 5_400],
    ticktext: ["0 s", "30 min", "1 h", "1 h 30 min"],
  });
  for (const span of [0, 0.3, 7, 1_000, 1e6, 1e9, 1e12]) {
    const { tickvals } = elapsedTicks([5, 5 + span], 6);
    assert.ok(tickvals.length <= 7, `${span}: ${tickvals.length}`);
  }
});

test("amounts of tokens are short", () => {
  assert.deepEqual([0, 950, 999.6, 12_340, 4_100_000, 2e9, 999_999].map(formatTokens), [
    "0",
    "950",
    "1k",
    "12.3k",
    "4.1M",
    "2B",
    "1M",
  ]);
  assert.deepEqual(
    [placeWords("step", 1204), placeWords("step", 9.5), placeWords("time", 90), placeWords("tokens", 5e6)],
    ["step 1,204", "step 9.5", "1 min 30 s", "5M tokens"],
  );
});

test("twenty runs look different from one another", () => {
  const looks = Array.from({ length: 20 }, (_, i) => runStyle(i));
  assert.equal(new Set(looks.map(({ token, dash }) => `${token} ${dash}`)).size, 20);
  assert.equal(new Set(looks.slice(0, 8).map(({ token }) => token)).size, 8);
});
