import assert from "node:assert/strict";
import test from "node:test";

import {
  BATCH,
  MORE_PANELS,
  PANELS,
  SCORED,
  metricsOf,
} from "../../frontend/collapsewatch_frontend/static/js/panels.js";

test("measures that stand folded away are loaded only when they are wanted", () => {
  for (const scope of [SCORED, BATCH]) {
    const [few, all] = [metricsOf(scope), metricsOf(scope, { more: true })];
    assert.deepEqual(
      few.filter((metric) => !all.includes(metric)),
      [],
    );
    assert.ok(all.length > few.length);
  }
  assert.ok(!metricsOf(SCORED).includes("mi_token"));
  assert.ok(metricsOf(SCORED, { more: true }).includes("retrieval_chance@2"));
});

test("every figure has a name of its own, also in an address", () => {
  const ids = [...PANELS, ...MORE_PANELS].map((panel) => panel.id);
  assert.equal(new Set(ids).size, ids.length);
  for (const id of ids) assert.match(id, /^[a-z0-9-]+$/);
  const titles = [...PANELS, ...MORE_PANELS].map((panel) => panel.title);
  assert.equal(new Set(titles).size, titles.length);
});
