import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

import {
  COMPARED,
  configDifference,
  sharedReference,
} from "../../frontend/collapsewatch_frontend/static/js/compare.js";
import {
  BATCH,
  PANELS,
  SCORED,
  TRAINER,
  chooseScope,
  metricsOf,
  scoredScopes,
  trainerPanels,
} from "../../frontend/collapsewatch_frontend/static/js/panels.js";
import { series } from "./helpers.js";

const CONTRACT = readFileSync(
  join(dirname(fileURLToPath(import.meta.url)), "../../client_sdk/collapsewatch/contracts/metrics.py"),
  "utf8",
);

test("every metric that a panel draws is in the contract", () => {
  const names = [...metricsOf(SCORED), ...metricsOf(BATCH), ...COMPARED.map((figure) => figure.metric)];
  for (const name of names) assert.ok(CONTRACT.includes(`"${name}":`), `${name} is no metric`);
});

test("panels have ids of their own and draw something", () => {
  assert.equal(new Set(PANELS.map((panel) => panel.id)).size, PANELS.length);
  for (const panel of PANELS) assert.ok(panel.lines.length > 0);
});

test("retrieval accuracy is never drawn without its chance level", () => {
  const lines = PANELS.find((panel) => panel.id === "retrieval").lines.map((line) => line.metric);
  assert.deepEqual(lines, ["retrieval_accuracy", "retrieval_chance"]);
});

test("success comes first among the trainer's scalars, and those without a place are counted", () => {
  const names = ["kl", "zeta", "eval/success", ...Array.from({ length: 20 }, (_, i) => `loss_${i}`)];
  const { panels, left } = trainerPanels(names);
  assert.equal(panels[0].metric, "eval/success");
  assert.equal(panels.length + left, names.length);
  assert.ok(panels.every((panel) => panel.scope === TRAINER));
});

test("the scope asked for is taken if it exists, else the first turn", () => {
  const scopes = ["batch", "trainer", "turn/0", "first_turn"];
  assert.deepEqual(scoredScopes(scopes), ["turn/0", "first_turn"]);
  assert.equal(chooseScope("turn/0", scopes), "turn/0");
  assert.equal(chooseScope("turn/9", scopes), "first_turn");
  assert.equal(chooseScope("", ["trajectory", "batch"]), "trajectory");
  assert.equal(chooseScope("", []), "first_turn");
});

test("only settings that differ are listed, a missing one among them", () => {
  const rows = configDifference([
    { lr: 3e-4, filter: null, seed: 1 },
    { lr: 3e-4, filter: "top_p", extra: { a: 1 }, seed: 1 },
  ]);
  assert.deepEqual(
    rows.map((row) => row.key),
    ["extra.a", "filter"],
  );
});

test("a reference level is drawn once and only when all runs share it", () => {
  assert.equal(sharedReference([series([0], [0.125]), series([0, 1], [0.125, 0.125])]), 0.125);
  assert.equal(sharedReference([series([0], [0.125]), series([0], [0.25])]), null);
  assert.equal(sharedReference([undefined]), null);
});
