import assert from "node:assert/strict";
import test from "node:test";

import {
  RUN_STATES,
  isSilent,
  lastSeenWords,
  runStateInfo,
  stateCounts,
} from "../../frontend/collapsewatch_frontend/static/js/run_states.js";

const NOW = Date.parse("2026-01-31T12:00:00Z");

test("every state has a word and an icon of its own, so that colour is not alone", () => {
  for (const key of ["name", "icon"]) {
    const values = Object.values(RUN_STATES).map((info) => info[key]);
    assert.equal(new Set(values).size, values.length);
  }
});

test("an unknown state keeps its name and never looks healthy", () => {
  assert.equal(runStateInfo("paused").name, "paused");
  assert.notEqual(runStateInfo("paused").tone, "good");
  assert.equal(runStateInfo("constructor").name, "constructor");
});

test("a silent run says when it was last seen, a living one does not", () => {
  const last_seen_at = "2026-01-31T11:56:00Z";
  assert.equal(lastSeenWords({ state: "stalled", last_seen_at }, NOW), "last seen 4 min ago");
  assert.equal(lastSeenWords({ state: "crashed", last_seen_at: null }, NOW), "never seen alive");
  for (const state of ["running", "finished", "failed"]) {
    assert.equal(isSilent(state), false);
    assert.equal(lastSeenWords({ state, last_seen_at }, NOW), "");
  }
});

test("runs in trouble are counted where there are any", () => {
  const runs = ["running", "running", "crashed", "finished"].map((state) => ({ state }));
  assert.deepEqual(stateCounts(runs), ["2 running", "1 crashed"]);
  assert.deepEqual(stateCounts([]), ["0 running"]);
});
