import assert from "node:assert/strict";
import test from "node:test";

import {
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
  });
  assert.equal(liveState({ connected: false, lostAtMs: 7, everConnected: false }).kind, "connecting");
});
