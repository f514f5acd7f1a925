import assert from "node:assert/strict";
import test from "node:test";

import {
  Attention,
  Freshness,
  Refresher,
  backoffSeconds,
  liveState,
} from "../../frontend/collapsewatch_frontend/static/js/refresh.js";

/** Timers that fire when told to. */
function fakeTimers() {
  const waiting = new Map();
  let next = 1;
  return {
    waits: () => [...waiting.values()].map(({ ms }) => ms),
    setTimer: (callback, ms) => {
      waiting.set(next, { callback, ms });
      return next++;
    },
    clearTimer: (timer) => waiting.delete(timer),
    async fire() {
      const due = [...waiting.values()];
      waiting.clear();
      for (const { callback } of due) await callback();
    },
  };
}

test("pauses before a reconnect double up to half a minute", () => {
  const middle = () => 0.5;
  assert.deepEqual(
    [0, 1, 2, 3, 4, 5, 20].map((attempt) => backoffSeconds(attempt, middle)),
    [1, 2, 4, 8, 16, 30, 30],
  );
  assert.equal(
    backoffSeconds(0, () => 0),
    0.75,
  );
  assert.equal(
    backoffSeconds(0, () => 1),
    1.25,
  );
});

test("many wishes become one load", async () => {
  const timers = fakeTimers();
  const loads = [];
  const refresher = new Refresher(async (wishes) => loads.push([...wishes]), timers);
  refresher.request("a");
  refresher.request("b");
  refresher.request("a");
  assert.equal(timers.waits().length, 1);
  await timers.fire();
  assert.deepEqual(loads, [["a", "b"]]);
});

test("a wish that comes during a load is served by the next one", async () => {
  const timers = fakeTimers();
  const loads = [];
  let finish;
  const refresher = new Refresher((wishes) => {
    loads.push([...wishes]);
    return new Promise((resolve) => (finish = resolve));
  }, timers);
  refresher.request("a");
  const running = timers.fire();
  refresher.request("late");
  assert.equal(timers.waits().length, 0, "two loads at once");
  finish();
  await running;
  const second = timers.fire();
  finish();
  await second;
  assert.deepEqual(loads, [["a"], ["late"]]);
});

test("a failed load is tried again with all its wishes, after a pause", async () => {
  const timers = fakeTimers();
  const loads = [];
  const errors = [];
  const refresher = new Refresher(
    async (wishes) => {
      loads.push([...wishes]);
      if (loads.length === 1) throw new Error("down");
    },
    { ...timers, onError: (error) => errors.push(error.message) },
  );
  refresher.request("a");
  await timers.fire();
  assert.deepEqual(errors, ["down"]);
  assert.ok(timers.waits()[0] >= 750, "it hammers a server that is down");
  await timers.fire();
  assert.deepEqual(loads, [["a"], ["a"]]);
});

test("a view that gives up asks no more", async () => {
  const timers = fakeTimers();
  const refresher = new Refresher(
    async () => {
      throw new Error("no such run");
    },
    { ...timers, onError: () => "give up" },
  );
  refresher.request("a");
  await timers.fire();
  assert.deepEqual(timers.waits(), []);
});

test("an urgent wish does not wait behind a patient one", async () => {
  const timers = fakeTimers();
  const loads = [];
  const refresher = new Refresher(async (wishes) => loads.push([...wishes]), timers);
  refresher.request("slow");
  refresher.requestNow("fast");
  assert.deepEqual(timers.waits(), [0]);
  await timers.fire();
  assert.deepEqual(loads, [["slow", "fast"]]);
});

test("a stopped view loads nothing", async () => {
  const timers = fakeTimers();
  const refresher = new Refresher(() => assert.fail("loaded"), timers);
  refresher.request("a");
  refresher.stop();
  refresher.request("b");
  await timers.fire();
});

test("the live mark tells when the page became stale", () => {
  assert.equal(liveState({ connected: true, lostAtMs: null, everConnected: true }).kind, "live");
  assert.deepEqual(liveState({ connected: false, lostAtMs: 7, everConnected: true }), {
    kind: "stale",
    sinceMs: 7,
    connected: false,
  });
  assert.equal(liveState({ connected: false, lostAtMs: 7, everConnected: false }).kind, "connecting");
});

const apart = () => ({ attention: new Attention(), freshness: new Freshness() });

test("of the steps with news the first is kept, however many there are", async () => {
  const timers = fakeTimers();
  const loads = [];
  const refresher = new Refresher(async (wishes) => loads.push([...wishes]), { ...timers, ...apart() });
  for (const step of [9, 7, 8]) refresher.request(step);
  for (let step = 10; step < 10_000; step += 1) refresher.request(step);
  refresher.request("alerts");
  await timers.fire();
  assert.deepEqual(loads, [[7, "alerts"]]);
});

test("a page that nobody looks at loads once a minute, and at once when somebody does", async () => {
  const timers = fakeTimers();
  const shared = apart();
  let numLoads = 0;
  const refresher = new Refresher(async () => (numLoads += 1), { ...timers, ...shared });
  shared.attention.set(true);
  refresher.request("all", 400);
  assert.deepEqual(timers.waits(), [400], "what was never loaded is loaded also behind other tabs");
  await timers.fire();
  refresher.request("news", 400);
  assert.deepEqual(timers.waits(), [60_000]);
  shared.attention.set(false);
  assert.deepEqual(timers.waits(), [0]);
  await timers.fire();
  assert.equal(numLoads, 2);
  refresher.stop();
  refresher.request("more");
  shared.attention.set(false);
  assert.deepEqual(timers.waits(), []);
});

test("a page is stale since its last good load, until it loads again or is left", async () => {
  const timers = fakeTimers();
  const shared = apart();
  const told = [];
  shared.freshness.subscribe(() => told.push(shared.freshness.staleSinceMs));
  let [nowMs, works] = [1000, true];
  const load = async () => {
    if (!works) throw new Error("no");
  };
  const refresher = new Refresher(load, { ...timers, ...shared, now: () => nowMs });
  refresher.request("all");
  await timers.fire();
  [nowMs, works] = [5000, false];
  refresher.request("news");
  await timers.fire();
  nowMs = 9000;
  await timers.fire();
  works = true;
  await timers.fire();
  assert.deepEqual(told, [1000, null]);
  works = false;
  refresher.request("news");
  await timers.fire();
  refresher.stop();
  assert.deepEqual(told, [1000, null, 9000, null]);
});

test("what is given up makes nothing stale", async () => {
  const timers = fakeTimers();
  const shared = apart();
  const load = async () => {
    throw new Error("there is no such run");
  };
  new Refresher(load, { ...timers, ...shared, onError: () => "give up" }).request("all");
  await timers.fire();
  assert.equal(shared.freshness.staleSinceMs, null);
});

test("a view is live only when the stream is open and what it told could be loaded", () => {
  const open = { connected: true, lostAtMs: null, everConnected: true };
  assert.equal(liveState({ ...open, staleSinceMs: null }).kind, "live");
  assert.deepEqual(liveState({ ...open, staleSinceMs: 5 }), { kind: "stale", sinceMs: 5, connected: true });
  const lost = { connected: false, lostAtMs: 9, everConnected: true };
  assert.deepEqual(liveState({ ...lost, staleSinceMs: 5 }), { kind: "stale", sinceMs: 5, connected: false });
  assert.deepEqual(liveState(lost), { kind: "stale", sinceMs: 9, connected: false });
  assert.equal(liveState({ ...lost, everConnected: false, staleSinceMs: 5 }).kind, "connecting");
});
