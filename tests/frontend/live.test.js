import assert from "node:assert/strict";
import test from "node:test";

import { LiveHub } from "../../frontend/collapsewatch_frontend/static/js/live_hub.js";

/** A network and a clock that do what the test says. */
function fakeWorld() {
  const world = { sources: [], nowMs: 0, timers: [], repeated: null, answers: true };
  world.parts = {
    open(lastEventId) {
      const listeners = {};
      const source = {
        lastEventId,
        closed: false,
        addEventListener: (name, handle) => (listeners[name] = handle),
        close: () => (source.closed = true),
        say: (name, id, data) => listeners[name]({ lastEventId: String(id ?? ""), data: JSON.stringify(data) }),
      };
      world.sources.push(source);
      return source;
    },
    ask: async () => world.answers,
    now: () => world.nowMs,
    setTimer: (callback) => world.timers.push(callback),
    clearTimer: () => {},
    setRepeated: (callback) => (world.repeated = callback),
    clearRepeated: () => (world.repeated = null),
  };
  world.last = () => world.sources.at(-1);
  return world;
}

function tab() {
  const told = [];
  return { told, postMessage: (message) => told.push(message), kinds: () => told.map(({ kind }) => kind) };
}

const ids = ({ told }) => told.filter(({ kind }) => kind === "event").map(({ id }) => id);
const opens = ({ told }) => told.filter(({ kind }) => kind === "open").map(({ fresh }) => fresh);

test("fifty tabs have one connection, and all of them hear everything", () => {
  const world = fakeWorld();
  const hub = new LiveHub(world.parts);
  const tabs = Array.from({ length: 50 }, tab);
  for (const each of tabs) hub.hear(each, { kind: "join", lastEventId: 7 });
  world.last().say("open");
  world.last().say("metrics", 8, { step: 1 });
  assert.equal(world.sources.length, 1);
  for (const each of tabs) {
    assert.deepEqual(opens(each), [false]);
    assert.deepEqual(ids(each), [8]);
    assert.equal(each.told.at(-1).data, '{"step":1}');
  }
});

test("who knows no event has to load everything", () => {
  const world = fakeWorld();
  const [hub, one] = [new LiveHub(world.parts), tab()];
  hub.hear(one, { kind: "join", lastEventId: null });
  assert.equal(world.last().lastEventId, null);
  world.last().say("open");
  world.last().say("hello", 20, {});
  assert.deepEqual(opens(one), [true]);
});

test("a tab that comes later is told what it missed, or that nobody knows it", () => {
  const world = fakeWorld();
  const hub = new LiveHub(world.parts);
  hub.hear(tab(), { kind: "join", lastEventId: 10 });
  world.last().say("open");
  for (const id of [11, 12, 13]) world.last().say("batch", id, {});
  const [missedOne, missedMore, old] = [tab(), tab(), tab()];
  hub.hear(missedOne, { kind: "join", lastEventId: 12 });
  hub.hear(missedMore, { kind: "join", lastEventId: 10 });
  hub.hear(old, { kind: "join", lastEventId: 9 });
  assert.deepEqual([opens(missedOne), ids(missedOne)], [[false], [13]]);
  assert.deepEqual([opens(missedMore), ids(missedMore)], [[false], [11, 12, 13]]);
  assert.deepEqual([opens(old), ids(old)], [[true], []]);
});

test("a broken connection goes on after the last event", () => {
  const world = fakeWorld();
  const [hub, one] = [new LiveHub(world.parts), tab()];
  hub.hear(one, { kind: "join", lastEventId: 4 });
  world.last().say("open");
  world.last().say("run", 5, {});
  world.nowMs = 1000;
  world.last().say("error");
  assert.deepEqual(one.told.at(-1), { kind: "state", connected: false, lostAtMs: 0 });
  world.timers.pop()();
  assert.equal(world.sources.length, 2);
  assert.equal(world.last().lastEventId, 5);
  world.last().say("open");
  world.last().say("run", 6, {});
  assert.deepEqual(opens(one), [false, false]);
  assert.deepEqual(ids(one), [5, 6]);
});

test("a server that has forgotten what was missed makes the page load everything", () => {
  const world = fakeWorld();
  const [hub, one] = [new LiveHub(world.parts), tab()];
  hub.hear(one, { kind: "join", lastEventId: 4 });
  world.last().say("open");
  world.last().say("hello", 900, {});
  assert.deepEqual(opens(one), [false, true]);
  const late = tab();
  hub.hear(late, { kind: "join", lastEventId: 899 });
  assert.deepEqual(opens(late), [true]);
});

test("a connection that only looks open is found out by a question", async () => {
  const world = fakeWorld();
  const [hub, one] = [new LiveHub(world.parts), tab()];
  hub.hear(one, { kind: "join", lastEventId: 4 });
  world.last().say("open");
  world.nowMs = 14_000;
  world.answers = false;
  await world.repeated();
  assert.equal(one.told.at(-1).kind, "open", "it was not silent for long");
  world.nowMs = 16_000;
  world.answers = true;
  await world.repeated();
  assert.equal(one.told.at(-1).kind, "open");
  world.nowMs = 40_000;
  world.answers = false;
  await world.repeated();
  assert.deepEqual(one.told.at(-1), { kind: "state", connected: false, lostAtMs: 16_000 });
});

test("the last tab that leaves ends the connection, and one that says nothing is forgotten", () => {
  const world = fakeWorld();
  const hub = new LiveHub(world.parts);
  const [one, silent] = [tab(), tab()];
  hub.hear(one, { kind: "join", lastEventId: 1 });
  hub.hear(silent, { kind: "join", lastEventId: 1 });
  world.last().say("open");
  for (let minute = 1; minute <= 6; minute += 1) {
    world.nowMs = minute * 60_000;
    hub.hear(one, { kind: "sign", lastEventId: 1 });
  }
  assert.equal(hub.numTabs, 1);
  hub.hear(one, { kind: "leave" });
  assert.ok(world.last().closed);
  hub.hear(silent, { kind: "sign", lastEventId: 3 });
  assert.equal(world.last().lastEventId, 3, "it lives after all and joins anew");
});

test("what is kept for tabs that come later is bounded", () => {
  const world = fakeWorld();
  const hub = new LiveHub(world.parts);
  hub.hear(tab(), { kind: "join", lastEventId: 0 });
  world.last().say("open");
  for (let id = 1; id <= 2000; id += 1) world.last().say("metrics", id, {});
  const [near, far] = [tab(), tab()];
  hub.hear(near, { kind: "join", lastEventId: 1500 });
  hub.hear(far, { kind: "join", lastEventId: 1499 });
  assert.equal(ids(near).length, 500);
  assert.deepEqual([opens(far), ids(far)], [[true], []]);
});
