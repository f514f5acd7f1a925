import assert from "node:assert/strict";
import test from "node:test";

import {
  FLOOR_THRESHOLDS,
  REGIMES,
  quadrantRange,
  quadrantRegions,
  regimeInfo,
} from "../../frontend/collapsewatch_frontend/static/js/regimes.js";
import { point } from "./helpers.js";

const THRESHOLDS = { low_dependence: 0.21, high_dependence: 0.41, low_diversity: 0.5, high_diversity: 2 };
const RANGE = { x: [0.2, 1.5], y: [-0.1, 1.06] };

function regionAt(x, y) {
  const found = quadrantRegions(THRESHOLDS, RANGE).filter(
    (region) => x > region.x0 && x < region.x1 && y > region.y0 && y < region.y1,
  );
  assert.ok(found.length <= 1, "regions overlap");
  return found[0]?.regime ?? null;
}

test("each corner of the quadrant has its regime", () => {
  assert.equal(regionAt(1, 0.9), "diverse_reasoning");
  assert.equal(regionAt(1, 0), "template_collapse");
  assert.equal(regionAt(0.3, 0.9), "compressed_reasoning");
  assert.equal(regionAt(0.3, 0), "low_entropy_collapse");
});

test("between the thresholds of dependence there is no named region", () => {
  assert.equal(regionAt(1, 0.3), null);
});

test("an unknown or missing regime never looks healthy", () => {
  assert.equal(regimeInfo(null).tone, "open");
  assert.equal(regimeInfo(undefined).name, "Not measured yet");
  assert.equal(regimeInfo("brand_new").name, "brand new");
  assert.equal(regimeInfo("brand_new").tone, "open");
  assert.equal(regimeInfo("toString").tone, "open");
});

test("regimes of one tone or colour are still told apart by name and icon", () => {
  const marks = Object.values(REGIMES).map((info) => `${info.name} ${info.icon}`);
  assert.equal(new Set(marks).size, marks.length);
  assert.equal(new Set(Object.values(REGIMES).map((info) => info.icon)).size, marks.length);
});

test("insufficient and indeterminate share the neutral colour", () => {
  assert.equal(regimeInfo("insufficient").colour, "open");
  assert.equal(regimeInfo("indeterminate").colour, "open");
});

test("the axes hold every point and all four regions", () => {
  const range = quadrantRange([point(0, 2.4, 0.9), point(1, 0.1, -0.12)], THRESHOLDS);
  assert.ok(range.x[0] <= 0.1 && range.x[1] >= 2.4);
  assert.ok(range.y[0] <= -0.12 && range.y[1] >= 1);
});

test("the axes stand without points and leave the narrow screen room for names", () => {
  const wide = quadrantRange([], FLOOR_THRESHOLDS);
  const narrow = quadrantRange([], FLOOR_THRESHOLDS, { compact: true });
  assert.ok(wide.x.every(Number.isFinite) && wide.y.every(Number.isFinite));
  const share = ({ x }) => (FLOOR_THRESHOLDS.low_diversity - x[0]) / (x[1] - x[0]);
  assert.ok(share(narrow) > share(wide));
});
