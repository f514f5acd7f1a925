import assert from "node:assert/strict";
import test from "node:test";

import {
  compareHref,
  parseRoute,
  runHref,
  runsHref,
  settingsHref,
} from "../../frontend/collapsewatch_frontend/static/js/routes.js";

test("no hash is the list of runs", () => {
  for (const hash of ["", "#", "#/"]) {
    assert.deepEqual(parseRoute(hash), { screen: "runs", project: "", search: "" });
  }
});

test("a hash that is no address of a screen is left alone", () => {
  assert.equal(parseRoute("#main"), null);
});

test("an unknown path is known to be unknown", () => {
  assert.deepEqual(parseRoute("#/setting"), { screen: "unknown" });
  assert.deepEqual(parseRoute("#/runs/"), { screen: "unknown" });
});

test("every address that is made can be read again", () => {
  const project = "my agent & co";
  assert.deepEqual(parseRoute(runsHref({ project, search: "grpo" })), {
    screen: "runs",
    project,
    search: "grpo",
  });
  assert.deepEqual(parseRoute(runHref("a:b.c-1", { scope: "turn/1", ghost: "d", earlier: "hidden" })), {
    screen: "run",
    runId: "a:b.c-1",
    scope: "turn/1",
    ghost: "d",
    earlier: "hidden",
  });
  assert.deepEqual(parseRoute(settingsHref()), { screen: "settings" });
  assert.deepEqual(parseRoute(compareHref(["a:1", "b"])), { screen: "compare", runIds: ["a:1", "b"] });
});

test("empty parameters stay out of the address", () => {
  assert.equal(runHref("abc", { scope: "", ghost: "" }), "#/runs/abc");
  assert.equal(runsHref(), "#/");
});

test("a run named twice is compared once", () => {
  assert.deepEqual(parseRoute("#/compare?runs=a,,a,b").runIds, ["a", "b"]);
});

test("a broken escape is taken as it stands", () => {
  assert.equal(parseRoute("#/runs/%E0%A4%A").runId, "%E0%A4%A");
});
