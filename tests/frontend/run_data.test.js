import assert from "node:assert/strict";
import test from "node:test";

import { RunData, WISH } from "../../frontend/collapsewatch_frontend/static/js/run_data.js";
import { point } from "./helpers.js";

/** A server with `numSteps` scored steps, and a record of what it was asked. */
function fakeServer({ numSteps, thresholds = null, scopes = ["first_turn", "batch"], dead = 0 }) {
  const server = { numSteps, thresholds, dead, asked: [] };
  const steps = (since = 0) => Array.from({ length: server.numSteps }, (_, i) => i).filter((i) => i >= since);
  server.api = {
    getRun: async () => ({
      run_id: "r",
      regime: { scope: "first_turn", regime: "indeterminate", reason: "", step: server.numSteps - 1 },
      scopes,
      metrics: { first_turn: ["retrieval_accuracy"], batch: ["reward"] },
      jobs: { queued: 0, leased: 0, done: server.numSteps, dead: server.dead },
      absent: { mi_seq: "no nats" },
    }),
    getSeries: async (_, question) => {
      server.asked.push(["series", question.scope, question.metrics, question.sinceStep]);
      const found = steps(question.sinceStep);
      const values = { steps: found, values: found.map((i) => i / 10), low: [], high: [] };
      return Object.fromEntries(question.metrics.map((metric) => [metric, values]));
    },
    getTrajectory: async (_, question) => {
      server.asked.push(["trajectory", question.scope, question.sinceStep]);
      const points = steps(question.sinceStep).map((i) => point(i, 1, 0.5));
      return { points, thresholds: server.thresholds, baseline: null };
    },
    getStep: async (_, step, scope) => {
      server.asked.push(["step", step, scope]);
      return { step, evaluation: { absent: { mi_token: "no ids" }, prompts: [] } };
    },
    getAlerts: async () => {
      server.asked.push(["alerts"]);
      return [];
    },
    getJobs: async (_, status) => {
      server.asked.push([status]);
      return [{ job_id: 1, status }];
    },
  };
  return server;
}

const kinds = (server) => server.asked.map(([kind]) => kind);

test("the first load asks for everything that the run has, and for nothing that it has not", async () => {
  const server = fakeServer({ numSteps: 3 });
  const data = new RunData(server.api, "r");
  await data.load(new Set([WISH.all]));
  assert.deepEqual(data.series.scored.retrieval_accuracy.steps, [0, 1, 2]);
  assert.deepEqual(
    server.asked.filter(([kind]) => kind === "series"),
    [
      ["series", "first_turn", ["retrieval_accuracy"], undefined],
      ["series", "batch", ["reward"], undefined],
    ],
  );
  assert.ok(!kinds(server).includes("dead"), "asked for dead jobs although there are none");
});

test("news of a step loads from that step on and keeps the rest", async () => {
  const server = fakeServer({ numSteps: 3 });
  const data = new RunData(server.api, "r");
  await data.load(new Set([WISH.all]));
  server.numSteps = 5;
  server.asked.length = 0;
  await data.load(new Set([4, 3]));
  assert.deepEqual(data.series.scored.retrieval_accuracy.steps, [0, 1, 2, 3, 4]);
  assert.deepEqual(
    data.trajectory.points.map((p) => p.step),
    [0, 1, 2, 3, 4],
  );
  assert.deepEqual(server.asked[0], ["series", "first_turn", ["retrieval_accuracy"], 3]);
  assert.ok(!kinds(server).includes("alerts"));
});

test("a new baseline loads the whole trajectory, because it rescales old points", async () => {
  const server = fakeServer({ numSteps: 11 });
  const data = new RunData(server.api, "r");
  await data.load(new Set([WISH.all]));
  server.numSteps = 12;
  server.thresholds = { low_dependence: 0.2, high_dependence: 0.4, low_diversity: 0.5, high_diversity: 2 };
  server.asked.length = 0;
  await data.load(new Set([11]));
  assert.deepEqual(
    server.asked.filter(([kind]) => kind === "trajectory"),
    [
      ["trajectory", "first_turn", 11],
      ["trajectory", "first_turn", undefined],
    ],
  );
  assert.equal(data.trajectory.points.length, 12);
});

test("an alert loads alerts and no series", async () => {
  const server = fakeServer({ numSteps: 3 });
  const data = new RunData(server.api, "r");
  await data.load(new Set([WISH.all]));
  server.asked.length = 0;
  await data.load(new Set([WISH.alerts]));
  assert.deepEqual(kinds(server), ["alerts"]);
});

test("dead jobs are fetched as soon as the run has some", async () => {
  const server = fakeServer({ numSteps: 1 });
  const data = new RunData(server.api, "r");
  await data.load(new Set([WISH.all]));
  assert.deepEqual(data.deadJobs, []);
  server.dead = 1;
  await data.load(new Set([WISH.summary]));
  assert.equal(data.deadJobs.length, 1);
});

test("a step that was not scored in the scope leaves the detail empty", async () => {
  const server = fakeServer({ numSteps: 2 });
  server.api.getStep = async () => {
    throw Object.assign(new Error("not scored"), { status: 404 });
  };
  const data = new RunData(server.api, "r");
  await data.load(new Set([WISH.all]));
  assert.equal(data.step, null);
});

test("another failure of the detail is not swallowed", async () => {
  const server = fakeServer({ numSteps: 2 });
  server.api.getStep = async () => {
    throw Object.assign(new Error("broken"), { status: 500 });
  };
  await assert.rejects(new RunData(server.api, "r").load(new Set([WISH.all])), /broken/);
});

test("the regime of another scope comes from that scope's own trajectory", async () => {
  const server = fakeServer({ numSteps: 2, scopes: ["first_turn", "turn/1", "batch"] });
  const data = new RunData(server.api, "r", { scope: "turn/1" });
  await data.load(new Set([WISH.all]));
  assert.deepEqual(data.regime(), { scope: "turn/1", regime: "diverse_reasoning", reason: "", step: 1 });
});

test("absence is explained by the run, the step, or not at all when it only has not come yet", async () => {
  const data = new RunData(fakeServer({ numSteps: 1 }).api, "r");
  await data.load(new Set([WISH.all]));
  assert.equal(data.absentReason("mi_seq"), "no nats");
  assert.equal(data.absentReason("mi_token"), "no ids");
  assert.equal(data.absentReason("reward"), null);
});

function resumedServer() {
  const server = fakeServer({ numSteps: 6 });
  const { getRun, getSeries } = server.api;
  const attempts = [
    { attempt_id: "a", started_at: "2026-01-31T12:00:00Z", first_step: 0, last_step: 9, superseded_from: 4 },
    {
      attempt_id: "b",
      started_at: "2026-01-31T12:30:00Z",
      first_step: 4,
      last_step: 5,
      superseded_from: null,
    },
  ];
  server.api.getRun = async () => ({ ...(await getRun()), attempts });
  server.api.getSeries = async (runId, question) => {
    if (question.attempt === undefined) return getSeries(runId, question);
    const values = { steps: [4, 9], values: [0.1, 0.2] };
    return Object.fromEntries(question.metrics.map((metric) => [metric, values]));
  };
  server.api.getAlerts = async () => [
    { alert_id: 1, opened_step: 8, superseded: true },
    { alert_id: 2, opened_step: 5, superseded: false },
    { alert_id: 3, opened_step: null, superseded: false },
  ];
  return server;
}

test("figures reach to the end of the earlier attempts that they show, and no further", async () => {
  const data = new RunData(resumedServer().api, "r", { withEarlier: true });
  await data.load(new Set([WISH.all]));
  assert.deepEqual(data.resumes(), [{ step: 4, number: 2 }]);
  assert.deepEqual(data.stepRange(), [0, 9]);
  assert.deepEqual(
    data.shownAlerts().map((alert) => alert.alert_id),
    [1, 2],
  );
  data.showsEarlier = false;
  assert.deepEqual(data.stepRange(), [0, 5]);
  assert.deepEqual(
    data.shownAlerts().map((alert) => alert.alert_id),
    [2],
  );
});

test("who does not ask for earlier attempts does not load them", async () => {
  const data = new RunData(resumedServer().api, "r");
  await data.load(new Set([WISH.all]));
  assert.deepEqual(data.earlier(), []);
  assert.deepEqual(data.stepRange(), [0, 5]);
});

test("batches that were laid aside are fetched as soon as the run has some", async () => {
  const server = fakeServer({ numSteps: 1 });
  const { getRun } = server.api;
  server.api.getRun = async () => ({ ...(await getRun()), jobs: { dead: 0, thinned: 2 } });
  const data = new RunData(server.api, "r");
  await data.load(new Set([WISH.all]));
  assert.deepEqual(data.thinnedJobs, [{ job_id: 1, status: "thinned" }]);
  assert.deepEqual(data.deadJobs, []);
});

/** A server whose series is longer than what it sends, cut down by taking every hundredth step. */
function longServer() {
  const server = fakeServer({ numSteps: 1000 });
  server.api.getSeries = async (_, { scope, metrics, sinceStep = 0, fromStep, toStep, maxPoints }) => {
    server.asked.push(["series", scope, fromStep, toStep, sinceStep, maxPoints]);
    let found = Array.from({ length: server.numSteps }, (_, i) => i);
    found = found.filter((i) => i >= Math.max(sinceStep, fromStep ?? 0) && i <= (toStep ?? Infinity));
    const kept = found.length > maxPoints ? found.filter((i) => i % 100 === 0 || i === found.at(-1)) : found;
    const one = { steps: kept, values: kept.map((i) => i / 10), low: null, high: null, num_points: found.length };
    return Object.fromEntries(metrics.map((metric) => [metric, one]));
  };
  return server;
}

const shownSteps = (data) => data.series.scored.retrieval_accuracy.steps;

test("what is zoomed into comes in full, and goes again when all is shown", async () => {
  const server = longServer();
  const data = new RunData(server.api, "r", { maxPoints: 50 });
  await data.load(new Set([WISH.all]));
  const whole = shownSteps(data);
  assert.equal(whole.length, 11);
  server.asked.length = 0;
  assert.equal(await data.look([419.6, 424.2]), true);
  assert.deepEqual(
    shownSteps(data).filter((step) => step > 400 && step < 500),
    [419, 420, 421, 422, 423, 424, 425],
  );
  assert.deepEqual(server.asked[0], ["series", "first_turn", 419, 425, 0, 50]);
  await data.look(null);
  assert.deepEqual(shownSteps(data), whole);
});

test("a run that is here in full asks for nothing when it is zoomed into", async () => {
  const server = fakeServer({ numSteps: 30 });
  const data = new RunData(server.api, "r");
  await data.load(new Set([WISH.all]));
  server.asked.length = 0;
  assert.equal(await data.look([3, 9]), false);
  assert.deepEqual(server.asked, []);
});

test("of two stretches the one that was asked for last is shown, whichever comes first", async () => {
  const server = longServer();
  const data = new RunData(server.api, "r", { maxPoints: 50 });
  await data.load(new Set([WISH.all]));
  const { getSeries } = server.api;
  const held = [];
  server.api.getSeries = async (...question) => {
    if (question[1].fromStep === 100) await new Promise((resolve) => held.push(resolve));
    return getSeries(...question);
  };
  const slow = data.look([110, 120]);
  const slower = data.look([100, 105]);
  const last = data.look([510, 515]);
  assert.equal(await last, true);
  for (const release of held) release();
  assert.deepEqual([await slow, await slower], [false, false]);
  assert.ok(shownSteps(data).includes(513));
  assert.ok(!shownSteps(data).includes(103));
});

test("a page that stays open for ever keeps no more than it can show", async () => {
  const server = longServer();
  server.numSteps = 10;
  const data = new RunData(server.api, "r", { maxPoints: 50 });
  await data.load(new Set([WISH.all]));
  for (let step = 10; step < 2000; step += 1) {
    server.numSteps = step + 1;
    await data.load(new Set([step]));
    assert.ok(shownSteps(data).length <= 100);
    assert.ok(data.trajectory.points.length <= 100);
  }
  assert.deepEqual([shownSteps(data)[0], shownSteps(data).at(-1)], [0, 1999]);
});

test("what stands on top of the page can be drawn before the rest has come", async () => {
  const server = fakeServer({ numSteps: 3 });
  const seen = [];
  const data = new RunData(server.api, "r", {
    onPart: () => seen.push([data.series.scored.retrieval_accuracy.steps.length, data.hasLoaded("batch")]),
  });
  await data.load(new Set([WISH.all]));
  assert.deepEqual(seen, [[3, false]]);
  assert.ok(data.hasLoaded("batch"));
  assert.equal(data.series.batch.reward.steps.length, 3);
  await data.load(new Set([2]));
  assert.equal(seen.length, 1, "news come in one piece");
});

test("the charts' library may run when the first figures are asked for and none has come", async () => {
  const server = fakeServer({ numSteps: 3 });
  const seen = [];
  const data = new RunData(server.api, "r", {
    onAsked: () => seen.push([kinds(server).join(), data.summary]),
  });
  await data.load(new Set([WISH.all]));
  assert.deepEqual(seen, [["series,trajectory", null]]);
});

test("of the trainer's numbers those come that are drawn", async () => {
  const server = fakeServer({ numSteps: 1, scopes: ["first_turn", "batch", "trainer"] });
  const { getRun } = server.api;
  const trainer = [...Array.from({ length: 40 }, (_, i) => `scalar_${i}`), "grad_norm_task/q1"];
  server.api.getRun = async () => ({ ...(await getRun()), metrics: { trainer } });
  const data = new RunData(server.api, "r");
  await data.load(new Set([WISH.all]));
  const drawn = Object.keys(data.series.trainer);
  assert.ok(drawn.length < 40);
  assert.ok(drawn.includes("grad_norm_task/q1"));
});
