import assert from "node:assert/strict";
import { test } from "node:test";

/** Counts what goes over the network; each answer says which one it is. */
function network() {
  const asked = [];
  globalThis.fetch = async (address) => {
    asked.push(address);
    return new Response(JSON.stringify({ number: asked.length, series: {} }));
  };
  return asked;
}

globalThis.window = { location: { pathname: "/", hash: "" } };
globalThis.document = { documentElement: { dataset: {} } };
const api = await import("../../frontend/collapsewatch_frontend/static/js/api.js");
const { RunData } = await import("../../frontend/collapsewatch_frontend/static/js/run_data.js");

test("an answer that was asked for ahead is taken once, and then asked for anew", async () => {
  const asked = network();
  const early = await api.aheadApi.getRun("r");
  assert.equal((await api.getRun("r")).number, early.number);
  assert.equal(asked.length, 1);
  assert.equal((await api.getRun("r")).number, 2);
  assert.equal(asked.length, 2);
});

test("what no screen took is forgotten", async () => {
  const asked = network();
  await api.aheadApi.getRun("r");
  api.forgetAhead();
  await api.getRun("r");
  assert.equal(asked.length, 2);
});

test("a failure that was asked for ahead reaches the screen, and is told to nobody else", async () => {
  globalThis.fetch = async () => new Response(JSON.stringify({ error: { code: "run_not_found", message: "no" } }), { status: 404 });
  api.aheadApi.getRun("r").catch(() => {});
  await assert.rejects(api.getRun("r"), { status: 404, code: "run_not_found" });
});

test("a run's page asks for nothing that was asked for ahead", async () => {
  const asked = [];
  const summary = { scopes: ["first_turn"], metrics: { first_turn: ["mi_seq"], batch: ["reward"] }, jobs: {} };
  globalThis.fetch = async (address) => {
    asked.push(address);
    const answer = { series: {}, points: [], thresholds: null, baseline: null, alerts: [], ...summary };
    return new Response(JSON.stringify(answer));
  };
  const route = { runId: "r", scope: "", scorer: "", earlier: "", more: false, chart: "", view: { range: null } };
  const early = RunData.of(api.aheadApi, route).load(new Set(["all"]));
  const late = RunData.of(api, route).load(new Set(["all"]));
  await Promise.all([early, late]);
  assert.equal(new Set(asked).size, asked.length);
  assert.ok(asked.some((address) => address.includes("/trajectory")));
  assert.ok(asked.some((address) => address.includes("metric=reward")));
});
