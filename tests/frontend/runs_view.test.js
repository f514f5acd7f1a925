import assert from "node:assert/strict";
import test from "node:test";

import { parseRoute, runsHref } from "../../frontend/collapsewatch_frontend/static/js/routes.js";
import {
  groupChoices,
  groupKey,
  isNarrowed,
  lineOffsets,
  listLines,
  matchingRuns,
  mergedRows,
  nextSort,
  sortDirection,
  sortedRuns,
  tagCounts,
  tagsOf,
  visibleLines,
} from "../../frontend/collapsewatch_frontend/static/js/runs_view.js";
import { SparklineStore } from "../../frontend/collapsewatch_frontend/static/js/sparkline_store.js";

const USUAL = { project: "", search: "", tag: "", state: "", group: "", sort: "", archived: false };

const run = (run_id, changes = {}) => ({
  run_id,
  name: `name of ${run_id}`,
  given_name: `given ${run_id}`,
  project: "p",
  state: "running",
  tags: [],
  notes: "",
  created_at: "2026-01-01T00:00:00.000Z",
  updated_at: "2026-01-01T00:00:00.000Z",
  last_step: 1,
  regime: null,
  open_alerts: { critical: 0, warning: 0, info: 0 },
  latest: {},
  group: null,
  ...changes,
});
const ids = (runs) => runs.map((one) => one.run_id);

test("the whole view of the list stands in its address, and nothing that is usual", () => {
  assert.equal(runsHref(), "#/");
  assert.equal(runsHref(USUAL), "#/");
  const view = {
    project: "a b",
    search: "grpo & co",
    tag: "x,y",
    state: "stalled",
    group: "config.optimiser.name",
    sort: "-reward",
    archived: true,
  };
  assert.deepEqual(parseRoute(runsHref(view)), { screen: "runs", ...view });
  assert.equal(parseRoute("#/?sort=-nothing").sort, "");
  assert.equal(parseRoute("#/?sort=constructor").sort, "");
});

test("runs are sorted by value, and those without one come last both ways", () => {
  const runs = [
    run("none"),
    run("low", { latest: { reward: -0.5 } }),
    run("high", { latest: { reward: 2 } }),
    run("zero", { latest: { reward: 0 } }),
  ];
  assert.deepEqual(ids(sortedRuns(runs, "reward")), ["low", "zero", "high", "none"]);
  assert.deepEqual(ids(sortedRuns(runs, "-reward")), ["high", "zero", "low", "none"]);
});

test("equals are in the usual order: newest first, then as the server has them", () => {
  const at = (day) => ({ created_at: `2026-01-0${day}T00:00:00.000Z` });
  const runs = [run("b", at(1)), run("a", at(1)), run("c", at(3)), run("d", at(2))];
  for (const sort of ["", "reward", "-reward"]) {
    assert.deepEqual(ids(sortedRuns(runs, sort)), ["c", "d", "b", "a"], sort);
  }
  assert.deepEqual(ids(runs), ["b", "a", "c", "d"]);
});

test("one critical alert weighs more than any number of warnings", () => {
  const alerts = (critical, warning, info) => ({ open_alerts: { critical, warning, info } });
  const runs = [
    run("info", alerts(0, 0, 900)),
    run("warned", alerts(0, 30, 0)),
    run("critical", alerts(1, 0, 0)),
  ];
  assert.deepEqual(ids(sortedRuns(runs, "-alerts")), ["critical", "warned", "info"]);
});

test("a column's head goes through its order, the other way, and the usual one", () => {
  assert.deepEqual(
    [nextSort("", "reward"), nextSort("-reward", "reward"), nextSort("reward", "reward")],
    ["-reward", "reward", ""],
  );
  assert.deepEqual(
    [nextSort("-reward", "skill"), nextSort("skill", "skill"), nextSort("-skill", "skill")],
    ["skill", "-skill", ""],
  );
  assert.deepEqual(
    ["reward", "-reward", ""].map((sort) => sortDirection(sort, "reward")),
    ["ascending", "descending", null],
  );
});

test("every word of a search is found in some text of the run", () => {
  const runs = [
    run("r1", { name: "GRPO 7B", given_name: "grpo-7b-x", tags: ["baseline"] }),
    run("r2", { notes: "Filter off at step 90", regime: { regime: "template_collapse" } }),
    run("r3", { tags: ["base"], state: "stalled" }),
  ];
  const found = (changes) => ids(matchingRuns(runs, { ...USUAL, ...changes }));
  assert.deepEqual(found({ search: "  " }), ["r1", "r2", "r3"]);
  assert.deepEqual(found({ search: "7b Base" }), ["r1"]);
  assert.deepEqual(found({ search: "base" }), ["r1", "r3"]);
  assert.deepEqual(found({ search: "7b-x" }), ["r1"]);
  assert.deepEqual(found({ search: "step collapse" }), ["r2"]);
  assert.deepEqual(found({ tag: "base" }), ["r3"]);
  assert.deepEqual(found({ state: "stalled", tag: "baseline" }), []);
  assert.equal(isNarrowed(USUAL), false);
  assert.equal(isNarrowed({ ...USUAL, tag: "a" }), true);
});

test("groups stand in the order of their values, those without one last", () => {
  const runs = [
    run("a", { group: 10 }),
    run("b", { group: 2 }),
    run("c"),
    run("d", { group: "2" }),
    run("e", { group: 10 }),
  ];
  const lines = listLines(runs, "config.lr");
  assert.deepEqual(
    lines.map((line) => (line.kind === "group" ? `${line.label} (${line.count})` : line.run.run_id)),
    ["lr = 2 (1)", "b", "lr = 2 (1)", "d", "lr = 10 (2)", "a", "e", "lr is not set (1)", "c"],
  );
  assert.equal(new Set(lines.map((line) => line.key)).size, lines.length);
  assert.deepEqual(
    listLines(runs, "").map((line) => line.key),
    ["a", "b", "c", "d", "e"],
  );
  assert.deepEqual(
    listLines([run("x", { state: "stalled" }), run("y")], "state").map((line) => line.label ?? line.key),
    ["Running", "y", "Stalled", "x"],
  );
});

test("a config key may have the name of a column of the list", () => {
  assert.equal(groupKey({ group: "config.state" }), "state");
  assert.equal(groupKey({ group: "state" }), "");
  const choices = groupChoices(["lr", "state"]).map(({ id }) => id);
  assert.deepEqual(choices, ["", "project", "state", "regime", "config.lr", "config.state"]);
});

test("tags are counted, and read from what people type", () => {
  const runs = [run("a", { tags: ["y", "x"] }), run("b", { tags: ["x"] })];
  assert.deepEqual(tagCounts(runs), [
    { tag: "x", count: 2 },
    { tag: "y", count: 1 },
  ]);
  assert.deepEqual(tagsOf(" a, b c ,, a,"), ["a", "b c"]);
  assert.deepEqual(tagsOf("  "), []);
});

test("the lines in sight are those that a walk along all of them finds", () => {
  const heights = { run: 76, group: 44 };
  const lines = Array.from({ length: 200 }, (_, i) => ({ kind: i % 7 === 0 ? "group" : "run" }));
  const offsets = lineOffsets(lines, heights);
  for (const [top, bottom] of [
    [0, 900],
    [-400, 500],
    [3000, 3900],
    [13_900, 14_800],
    [76, 76],
    [20_000, 21_000],
  ]) {
    for (const margin of [0, 300]) {
      const { first, end } = visibleLines(offsets, top, bottom, margin);
      let start = 0;
      lines.forEach(({ kind }, i) => {
        const isSeen = start < bottom + margin && start + heights[kind] > top - margin;
        if (isSeen) assert.ok(first <= i && i < end, `line ${i} of ${top} to ${bottom}`);
        start += heights[kind];
      });
      assert.ok(end - first <= (bottom - top + 2 * margin) / 44 + 3);
      assert.equal(offsets[offsets.length - 1], start);
    }
  }
  assert.deepEqual(visibleLines([0], 0, 900, 100), { first: 0, end: 0 });
});

test("a run that was asked for again and not answered is gone, a new one is there", () => {
  const rows = [run("a"), run("b"), run("c")];
  const merged = mergedRows(rows, ["b", "c", "d"], [run("c", { name: "new name" }), run("d")]);
  assert.deepEqual(ids(merged), ["d", "a", "c"]);
  assert.equal(merged[2].name, "new name");
});

/** A store whose timers fire at `fire()`. */
function storeOf(answers) {
  const asked = [];
  let timer = null;
  let numNews = 0;
  const store = new SparklineStore(
    async (runIds) => {
      asked.push(runIds);
      return answers(runIds);
    },
    () => (numNews += 1),
    { setTimer: (callback) => (timer = callback), clearTimer: () => (timer = null) },
  );
  const fire = async () => {
    const due = timer;
    timer = null;
    await due?.();
  };
  return { store, asked, fire, numNews: () => numNews };
}

test("lines are asked for together, once, and again when a run has newer scores", async () => {
  const scored = (id, skill) => run(id, { latest: { retrieval_skill: skill }, regime: { step: 3 } });
  const { store, asked, fire, numNews } = storeOf((runIds) => ({
    [runIds[0]]: { steps: [1], values: [0.5] },
  }));
  store.want([scored("a", 0.5), scored("b", 0.1)]);
  assert.equal(store.of("a"), undefined);
  await fire();
  assert.deepEqual(asked, [["a", "b"]]);
  assert.deepEqual(store.of("a"), { steps: [1], values: [0.5] });
  // Asked for, and there is none.
  assert.equal(store.of("b"), null);
  store.want([scored("a", 0.5), scored("b", 0.1)]);
  await fire();
  assert.equal(asked.length, 1);
  store.want([scored("a", 0.4), scored("b", 0.1)]);
  await fire();
  assert.deepEqual(asked[1], ["a"]);
  assert.equal(numNews(), 2);
});

test("only what is in sight when the time comes is asked for", async () => {
  const { store, asked, fire } = storeOf(() => ({}));
  store.want([run("a")]);
  store.want([run("b")]);
  await fire();
  assert.deepEqual(asked, [["b"]]);
});
