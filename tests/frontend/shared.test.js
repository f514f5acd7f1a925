import assert from "node:assert/strict";
import test from "node:test";

import { PANELS } from "../../frontend/collapsewatch_frontend/static/js/panels.js";
import { parseRoute } from "../../frontend/collapsewatch_frontend/static/js/routes.js";
import { COMPARED, addedFigure } from "../../frontend/collapsewatch_frontend/static/js/compare.js";
import {
  apiPrefix,
  chartLimits,
  comparedLimits,
  linkAddress,
  linkWords,
  quadrantLimits,
  shareToken,
  showsScreen,
  startHash,
} from "../../frontend/collapsewatch_frontend/static/js/shared.js";

const TOKEN = "Zk3vXo0hQmWc1b9c0Yt7n2s8u4d6f1aP";
const RUNS = [
  { run_id: "a", name: "A" },
  { run_id: "b:1", name: "B" },
];

test("a page knows by its address alone that it is a link's", () => {
  assert.equal(shareToken(`/s/${TOKEN}`), TOKEN);
  for (const path of ["/", "/s/", "/s/short", `/s/${TOKEN}/x`, `/x/s/${TOKEN}`, `/s/${TOKEN}%2F..`, "/s/<b>"])
    assert.equal(shareToken(path), null, path);
  assert.equal(shareToken(), null);
});

test("a link's page reads what was shared and nothing else", () => {
  assert.equal(apiPrefix(`/s/${TOKEN}`), `/api/v1/shared/${TOKEN}`);
  assert.equal(apiPrefix("/"), "/api/v1");
});

test("a link begins at its view, else at the only run, else at the list", () => {
  assert.equal(startHash({ view: "#/runs/a?step=3", kind: "run", runs: RUNS.slice(0, 1) }), "#/runs/a?step=3");
  assert.equal(startHash({ view: "#/", kind: "run", runs: RUNS.slice(1) }), "#/runs/b%3A1");
  assert.equal(startHash({ view: "#/", kind: "comparison", runs: RUNS }), "#/");
  const view = "#/compare?runs=a,gone,b%3A1&axis=time";
  assert.equal(startHash({ view, kind: "comparison", runs: RUNS }), "#/compare?runs=a,b%3A1&axis=time");
});

test("screens of other runs, and those that belong to the service, are not a link's", () => {
  const shows = (hash) => showsScreen({ runs: RUNS }, parseRoute(hash));
  for (const hash of ["#/", "#/runs/a", "#/runs/b%3A1?step=2", "#/compare?runs=a,b%3A1"])
    assert.equal(shows(hash), true, hash);
  for (const hash of ["#/runs/c", "#/compare?runs=a,c", "#/settings", "#/compare", "#/alerts", "#/alerts/3", "#/nowhere"])
    assert.equal(shows(hash), false, hash);
});

test("rollouts are a link's only where it says so", () => {
  const route = { screen: "rollouts", runId: "a" };
  assert.equal(showsScreen({ runs: RUNS, with_rollouts: true }, route), true);
  assert.equal(showsScreen({ runs: RUNS, with_rollouts: false }, route), false);
  assert.equal(showsScreen({ runs: RUNS, with_rollouts: true }, { ...route, runId: "c" }), false);
});

test("a chart's link names every metric that the chart draws, and no other", () => {
  const panel = PANELS.find(({ id }) => id === "retrieval");
  assert.deepEqual(chartLimits(panel, "turn/2"), {
    chart: "retrieval",
    series: { "turn/2": ["retrieval_accuracy", "retrieval_chance"] },
    trajectories: [],
  });
  assert.deepEqual(Object.keys(chartLimits(PANELS.find(({ id }) => id === "reward"), "x").series), ["batch"]);
  assert.deepEqual(quadrantLimits("first_turn").trajectories, ["first_turn"]);
});

test("the link of a comparison's chart names what it draws, how it is grouped, and what it stands on", () => {
  const choice = { scope: "turn/2", groupBy: ["lr"], axis: "tokens" };
  const figureOf = (id) => COMPARED.find((figure) => figure.id === id);
  assert.deepEqual(comparedLimits(figureOf("retrieval"), choice), {
    chart: "compare-retrieval",
    series: { "turn/2": ["retrieval_accuracy", "retrieval_chance"] },
    trajectories: [],
    group_by: ["lr"],
    tokens: true,
  });
  assert.deepEqual(comparedLimits(figureOf("reward"), choice).series, { batch: ["reward"] });
  assert.deepEqual(comparedLimits(addedFigure("trainer:kl"), choice).series, { trainer: ["kl"] });
  const quadrant = comparedLimits(null, { ...choice, axis: "step" });
  assert.deepEqual([quadrant.trajectories, quadrant.tokens], [["turn/2"], false]);
});

test("the server's word on its address comes first", () => {
  const receipt = { url: null, path: "/s/t" };
  assert.equal(linkAddress(receipt, "http://localhost:7788"), "http://localhost:7788/s/t");
  assert.equal(linkAddress({ ...receipt, url: "https://x.example/s/t" }, "http://y"), "https://x.example/s/t");
});

test("a link is told in words: what it shows, until when, how often it was opened", () => {
  const link = { mode: "live", status: "good", expires_at: "E", frozen_at: null, num_opened: 0 };
  const format = (time) => `<${time}>`;
  assert.equal(linkWords(link, format), "live, as it goes on · until <E> · never opened");
  const over = { ...link, mode: "snapshot", frozen_at: "F", status: "revoked", revoked_at: "R", num_opened: 2 };
  assert.equal(linkWords(over, format), "as it was at <F> · ended <R> · opened 2 times");
  assert.match(linkWords({ ...link, status: "expired", num_opened: 1 }, format), /expired <E> · opened once/);
});
