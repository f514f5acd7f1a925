import assert from "node:assert/strict";
import test from "node:test";

import { Clock, asLocal, fromLocal } from "../../frontend/collapsewatch_frontend/static/js/clock.js";

test("between two known steps time passes evenly, and beyond them at the nearest pace", () => {
  const clock = new Clock({ steps: [0, 10, 20], times: [1000, 2000, 6000] });
  assert.equal(clock.timeOf(5), 1500);
  assert.equal(clock.timeOf(15), 4000);
  assert.equal(clock.timeOf(25), 8000);
  assert.equal(clock.timeOf(-5), 500);
  for (const step of [-5, 0, 3, 10, 17, 25])
    assert.ok(Math.abs(clock.stepOf(clock.timeOf(step)) - step) < 1e-9);
});

test("a clock that was set back holds its time, and a repeated step counts once", () => {
  const clock = new Clock({ steps: [0, 1, 1, 2, 3], times: [1000, 3000, 9000, 2000, 4000] });
  assert.equal(clock.timeOf(1), 3000);
  assert.equal(clock.timeOf(2), 3000);
  assert.equal(clock.timeOf(3), 4000);
});

test("without two moments there is no axis of times", () => {
  assert.equal(new Clock({ steps: [], times: [] }).isKnown, false);
  assert.equal(new Clock({ steps: [4], times: [10] }).isKnown, false);
  assert.equal(new Clock({ steps: [4, 5], times: [10, 10] }).isKnown, false);
  assert.equal(new Clock({ steps: [4, 5], times: [10, 11] }).isKnown, true);
});

test("local times read as they stand on the wall, in numbers and in the chart library's words", () => {
  const noon = new Date(2026, 0, 31, 12, 0, 0).getTime();
  assert.equal(new Date(asLocal(noon)).getUTCHours(), 12);
  assert.equal(fromLocal(asLocal(noon)), noon);
  for (const text of ["2026-01-31 12:00", "2026-01-31 12:00:00", "2026-01-31 12:00:00.000"]) {
    assert.equal(fromLocal(text), noon);
  }
  assert.equal(fromLocal("2026-01-31"), new Date(2026, 0, 31).getTime());
});
