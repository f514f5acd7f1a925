import assert from "node:assert/strict";
import test from "node:test";

import {
  bannerAlerts,
  diskWords,
  queueFacts,
  serviceWords,
  sortBacklog,
  sortWorkers,
  workerStateInfo,
  workersWords,
} from "../../frontend/collapsewatch_frontend/static/js/service.js";

const QUEUE = { queued: 0, leased: 0, deferred: 0, thinned: 0, dead: 0, oldest_seconds: 0 };
const fact = (queue, id) => queueFacts({ ...QUEUE, ...queue }).find((each) => each.id === id);
const worker = (name, state) => ({ name, state, host: "h" });

test("an empty queue has no oldest job instead of one that waits 0 s", () => {
  assert.equal(fact({ oldest_seconds: null }, "oldest").value, "none");
  assert.equal(fact({}, "oldest").value, "none");
  assert.equal(fact({ queued: 1, oldest_seconds: 65 }, "oldest").value, "1 min");
});

test("what someone should look at is marked: a long wait, batches laid aside or dead", () => {
  for (const [queue, id] of [
    [{ queued: 1, oldest_seconds: 121 }, "oldest"],
    [{ thinned: 1 }, "thinned"],
    [{ dead: 1 }, "dead"],
  ]) {
    assert.equal(fact(queue, id).attention, true);
    assert.ok(!fact({}, id).attention);
  }
  assert.ok(!fact({ queued: 5000 }, "queued").attention);
});

test("workers at work come first, the lost ones last, unknown states between nobody", () => {
  const sorted = sortWorkers([
    worker("d", "gone"),
    worker("c", "idle"),
    worker("b", "working"),
    worker("a", "idle"),
  ]);
  assert.deepEqual(
    sorted.map(({ name }) => name),
    ["b", "a", "c", "d"],
  );
  assert.equal(workerStateInfo("dreaming").name, "dreaming");
});

test("a worker that is gone is not counted", () => {
  assert.equal(workersWords([worker("a", "gone")]), "no live worker");
  assert.equal(workersWords([worker("a", "idle"), worker("b", "gone")]), "1 worker, none at work");
  assert.equal(workersWords([worker("a", "working"), worker("b", "idle")]), "2 workers, 1 at work");
});

test("the service in one line", () => {
  const workers = [worker("a", "working")];
  assert.equal(serviceWords({ workers, queue: QUEUE }), "1 worker, 1 at work · nothing waits");
  assert.equal(
    serviceWords({ workers: [], queue: { ...QUEUE, queued: 1, leased: 1, deferred: 1 } }),
    "no live worker · 3 batches to score",
  );
});

test("runs that lost something come before runs that only wait", () => {
  const run = (name, dropped, spool_oldest_seconds) => ({ name, dropped, spool_oldest_seconds });
  const sorted = sortBacklog([
    run("waits", {}, 10),
    run("waits longer", {}, 60),
    run("lost", { refused: 1 }, 0),
  ]);
  assert.deepEqual(
    sorted.map(({ name }) => name),
    ["lost", "waits longer", "waits"],
  );
});

test("the banner is for what is open, critical and about no single run", () => {
  const alert = (alert_id, severity, status, run_id = null) => ({
    alert_id,
    severity,
    status,
    run_id,
    opened_step: null,
    opened_at: "2026-01-31T12:00:00Z",
  });
  const shown = bannerAlerts([
    alert(1, "critical", "open"),
    alert(2, "warning", "open"),
    alert(3, "critical", "resolved"),
    alert(4, "critical", "open", "crashed-run"),
  ]);
  assert.deepEqual(
    shown.map(({ alert_id }) => alert_id),
    [1],
  );
});

test("the disk is told where the server knows it", () => {
  assert.equal(diskWords({ disk_free_bytes: 3 * 2 ** 30 }), "3.0 GiB free");
  assert.equal(
    diskWords({ disk_free_bytes: 2 ** 30, disk_total_bytes: 2 ** 36 }),
    "1.0 GiB free of 64.0 GiB",
  );
  assert.equal(diskWords({ disk_free_bytes: null }), "");
});
