import assert from "node:assert/strict";
import test from "node:test";

import {
  alertHref,
  alertsHref,
  auditPageHref,
  channelsHref,
  compareHref,
  keysHref,
  parseRoute,
  peopleHref,
  retentionHref,
  rulesHref,
  runHref,
  runsHref,
  settingsHref,
} from "../../frontend/collapsewatch_frontend/static/js/routes.js";

test("no hash is the list of runs", () => {
  for (const hash of ["", "#", "#/"]) {
    const { screen, project, search } = parseRoute(hash);
    assert.deepEqual({ screen, project, search }, { screen: "runs", project: "", search: "" });
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
  const list = parseRoute(runsHref({ project, search: "grpo" }));
  assert.deepEqual([list.screen, list.project, list.search], ["runs", project, "grpo"]);
  const shown = {
    scope: "turn/1",
    ghost: "d",
    earlier: "hidden",
    scorer: "reference: tiny",
    more: true,
    step: 0,
    against: 12,
    chart: "mi",
    view: { smoothing: 0.5, log: true, axis: "time", range: [3, 9] },
  };
  assert.deepEqual(parseRoute(runHref("a:b.c-1", shown)), { screen: "run", runId: "a:b.c-1", ...shown });
  assert.deepEqual(parseRoute(settingsHref()), { screen: "settings" });
  const { screen, runIds } = parseRoute(compareHref(["a:1", "b"]));
  assert.deepEqual({ screen, runIds }, { screen: "compare", runIds: ["a:1", "b"] });
});

test("empty parameters stay out of the address", () => {
  assert.equal(runHref("abc", { scope: "", ghost: "" }), "#/runs/abc");
  assert.equal(runsHref(), "#/");
});

test("a step that is none is left out", () => {
  for (const step of ["-1", "1.5", "abc", ""]) assert.equal(parseRoute(`#/runs/a?step=${step}`).step, null);
});

test("a run named twice is compared once", () => {
  assert.deepEqual(parseRoute("#/compare?runs=a,,a,b").runIds, ["a", "b"]);
});

test("a broken escape is taken as it stands", () => {
  assert.equal(parseRoute("#/runs/%E0%A4%A").runId, "%E0%A4%A");
});

test("the filters of the inbox live in its address", () => {
  const filters = {
    status: "snoozed",
    severity: "critical",
    project: "a & b",
    run: "r:1",
    rule: "own/4",
    text: "x y",
  };
  assert.deepEqual(parseRoute(alertsHref(filters)), { screen: "alerts", filters });
  assert.equal(
    alertsHref({ ...filters, status: "", severity: "", project: "", run: "", rule: "", text: "" }),
    "#/alerts",
  );
  const none = { status: "", severity: "", project: "", run: "", rule: "", text: "" };
  assert.deepEqual(parseRoute("#/alerts"), { screen: "alerts", filters: none });
});

test("an alert is named by its number, and by nothing else", () => {
  assert.deepEqual(parseRoute(alertHref(12)), { screen: "alert", alertId: 12 });
  for (const wrong of [
    "#/alerts/0",
    "#/alerts/x",
    "#/alerts/1/2",
    "#/alerts/-1",
    `#/alerts/${"9".repeat(20)}`,
  ]) {
    assert.deepEqual(parseRoute(wrong), { screen: "unknown" }, wrong);
  }
});

test("rules and channels have an address each", () => {
  assert.deepEqual(parseRoute(rulesHref({ project: "sokoban" })), { screen: "rules", project: "sokoban" });
  assert.deepEqual(parseRoute(rulesHref()), { screen: "rules", project: "" });
  assert.deepEqual(parseRoute(channelsHref()), { screen: "channels" });
});

test("the places of people, keys and what is kept name their project in the address", () => {
  const project = "my agent & co";
  assert.deepEqual(parseRoute(peopleHref({ project })), { screen: "people", project });
  assert.deepEqual(parseRoute(keysHref()), { screen: "keys", project: "" });
  assert.deepEqual(parseRoute(retentionHref({ project })), { screen: "retention", project });
  const action = "run.delete";
  assert.deepEqual(parseRoute(auditPageHref({ project, action })), { screen: "audit", project, action });
});

test("whom another service did not sign in comes back with one word", () => {
  assert.deepEqual(parseRoute("#/sign-in/refused"), { screen: "sign-in", reason: "refused" });
  for (const hash of ["#/sign-in/", "#/sign-in/Two%20words", "#/sign-in/a/b", `#/sign-in/${"x".repeat(21)}`])
    assert.deepEqual(parseRoute(hash), { screen: "unknown" });
});

test("a link to join by carries its token in the address alone", () => {
  const token = "Zk3vXo0hQmWc1b9c0Yt7n2s8u4d6f1aP";
  assert.deepEqual(parseRoute(`#/join/${token}`), { screen: "join", token });
  for (const hash of ["#/join/", "#/join/short", `#/join/${token}/x`, `#/join/${token}%20`])
    assert.equal(parseRoute(hash).screen, "unknown", hash);
});
