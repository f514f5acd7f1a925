import assert from "node:assert/strict";
import test from "node:test";

import {
  TEMPLATE_PANEL,
  metricsOf,
  BATCH,
} from "../../frontend/collapsewatch_frontend/static/js/panels.js";
import { phraseFact, templateFact } from "../../frontend/collapsewatch_frontend/static/js/template.js";

const EVIDENCE = {
  compression_ratio: 0.123,
  phrases: [],
  min_words: 4,
  min_prompts: 8,
  num_prompts: 16,
  num_reasonings: 128,
};

test("evidence names who measured what", () => {
  const fact = templateFact(EVIDENCE, null);
  for (const words of ["by the worker", "without a model", "128 first reasonings of 16 prompts", "0.123"]) {
    assert.ok(fact.includes(words), fact);
  }
  assert.ok(!templateFact({ ...EVIDENCE, compression_ratio: null }, null).includes("compress"));
});

test("missing evidence has its reason, in the worker's words", () => {
  assert.equal(
    templateFact(null, "no scored first reasoning"),
    "Not measured: no scored first reasoning.",
  );
  assert.equal(templateFact(null, null), "Not measured yet.");
});

test("an empty list says what was looked for", () => {
  assert.equal(phraseFact(EVIDENCE), "No phrase of 4 words is shared by 8 prompts of 16.");
});

test("phrases that went with the text are not said to have been missing", () => {
  assert.match(phraseFact({ ...EVIDENCE, phrases_removed: true }), /^The shared phrases were removed/);
});

test("the ratio is loaded with the batch's metrics, and 1 is marked", () => {
  assert.ok(metricsOf(BATCH).includes("compression_distance_ratio"));
  assert.equal(TEMPLATE_PANEL.references[0].value, 1);
});
