import assert from "node:assert/strict";
import test from "node:test";

import {
  backlogHeadline,
  backlogLines,
  droppedReasons,
  queueWords,
  spoolWords,
  totalDropped,
} from "../../frontend/collapsewatch_frontend/static/js/backlog.js";

const jobs = (counts) => ({ queued: 0, leased: 0, done: 0, dead: 0, thinned: 0, ...counts });

test("a run that lost nothing and waits for nothing has no lines", () => {
  assert.deepEqual(backlogLines({ jobs: jobs(), dropped: {}, num_deferred: 0 }), []);
  assert.deepEqual(backlogHeadline({}), []);
});

test("losses come first, the largest first, in words; an unknown reason keeps its own", () => {
  assert.deepEqual(
    droppedReasons({ cosmic_ray: 2, values_invalid: 0, batches_rejected: 1, values_cosmic: 5 }),
    [
      { what: "5 values", why: "cosmic" },
      { what: "2 items", why: "cosmic ray" },
      { what: "1 batch", why: "the server refused it for good" },
    ],
  );
  assert.deepEqual(droppedReasons({ constructor_x: 1 }), [{ what: "1 item", why: "constructor x" }]);
  assert.equal(totalDropped({ a: 2, b: 5 }), 7);
  assert.equal(totalDropped(undefined), 0);
});

test("a run whose new batches are never scored says why", () => {
  const why = "The scorer takes the steps that 2 divides.";
  const [line] = backlogLines({ why_unscored: why });
  assert.deepEqual([line.id, line.tone, line.text], ["unscored", "warning", why]);
  assert.deepEqual(backlogLines({ why_unscored: null }), []);
});

test("what waits on the trainer is told with amount and age", () => {
  const spool = { spool_records: 1, spool_bytes: 2048, spool_oldest_seconds: 190 };
  assert.equal(spoolWords(spool), "1 record (2.0 KiB), the oldest 3 min old");
  assert.equal(spoolWords({ spool_records: 0 }), "");
  assert.equal(spoolWords(undefined), "");
});

test("what was dropped is one line with all its reasons", () => {
  const [line] = backlogLines({ dropped: { values_spool_full: 1, batches_rejected: 12 } });
  assert.equal(line.title, "13 items dropped on the trainer, and will not arrive");
  assert.match(line.text, /^12 batches: the server refused it for good. 1 value: the disk budget/);
});

test("who sends what waits depends on whether the trainer lives", () => {
  const text = (state) => backlogLines({ state, spool_records: 1, spool_bytes: 10 })[0].text;
  assert.match(text("running"), /trainer sends them/);
  for (const state of ["stalled", "crashed", "finished", "failed"])
    assert.match(text(state), /collapsewatch sync/);
});

test("each thing that waits or was lost has its line, batches that were not scored only in the head", () => {
  const summary = {
    jobs: jobs({ thinned: 3, dead: 1, queued: 70 }),
    dropped: { invalid: 4 },
    num_deferred: 60,
    spool_records: 2,
    spool_bytes: 100,
    spool_oldest_seconds: 1,
  };
  assert.deepEqual(
    backlogLines(summary).map((line) => line.id),
    ["dropped", "spool", "deferred"],
  );
  assert.deepEqual(
    backlogHeadline(summary).map((line) => line.short),
    [
      "1 batch could not be scored",
      "3 batches laid aside",
      "4 items dropped",
      "2 records on the trainer’s disk",
      "60 older batches put off",
    ],
  );
});

test("the scoring is silent when it keeps up, and says how far it is when it does not", () => {
  const run = { jobs: jobs({ queued: 1, leased: 1 }), last_step: 9, regime: { step: 7 } };
  assert.equal(queueWords(run), "2 batches being scored, scored up to step 7");
  assert.equal(queueWords({ ...run, jobs: jobs() }), "");
  assert.equal(queueWords({ ...run, regime: null }), "2 batches being scored");
});

test("steps that are left out by choice do not make the scoring look late", () => {
  const run = { jobs: jobs({ queued: 1 }), last_step: 9, regime: { step: 5, scope: "first_turn" } };
  const every = (steps, more) => ({ samplings: { first_turn: { every_steps: steps, ...more } } });
  assert.equal(queueWords({ ...run, ...every(5) }), "1 batch being scored");
  assert.equal(queueWords({ ...run, ...every(2) }), "1 batch being scored, scored up to step 5");
  assert.equal(queueWords({ ...run, ...every(1) }), "1 batch being scored, scored up to step 5");
  assert.equal(queueWords({ ...run, ...every(5), last_step: 10 }), "1 batch being scored, scored up to step 5");
  // When the next probe prompts come, only the trainer knows.
  assert.equal(queueWords({ ...run, ...every(1, { is_probe: true }) }), "1 batch being scored");
});

test("batches that were put off are not counted as being scored", () => {
  const run = { jobs: jobs({ queued: 60, leased: 1 }), num_deferred: 60, last_step: 9, regime: null };
  assert.equal(queueWords(run), "1 batch being scored");
});
