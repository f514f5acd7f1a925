import assert from "node:assert/strict";
import test from "node:test";

import { ChartView } from "../../frontend/collapsewatch_frontend/static/js/chart_view.js";
import { compareFigure } from "../../frontend/collapsewatch_frontend/static/js/figures/compare_lines.js";
import {
  compareQuadrant,
  onDependenceGround,
  placedPath,
} from "../../frontend/collapsewatch_frontend/static/js/figures/compare_quadrant.js";
import { shownFigure } from "../../frontend/collapsewatch_frontend/static/js/figures/shown.js";
import { figureTable } from "../../frontend/collapsewatch_frontend/static/js/figures/table.js";
import { THEME, point } from "./helpers.js";

const ofRun = (steps, values, extra = {}) => ({
  steps,
  places: null,
  values,
  low: null,
  high: null,
  ...extra,
});
const line = (name, series, extra = {}) => ({
  name,
  colour: "rgb(1, 2, 3)",
  dash: "solid",
  series,
  ...extra,
});
const draw = (options) => compareFigure({ theme: THEME, range: [0, 10], revision: "x", ...options });
const named = (figure) => figure.data.filter((trace) => trace.meta?.column !== undefined);

test("few runs over steps have their intervals and one box for all", () => {
  const intervals = { low: [0, 0.1], high: [0.3, 0.4] };
  const figure = draw({
    lines: [line("a", ofRun([0, 1], [0.1, 0.2], intervals)), line("b", ofRun([0, 1], [0.5, 0.6]))],
  });
  assert.equal(figure.layout.hovermode, "x unified");
  assert.equal(figure.data.filter((trace) => trace.fill === "toself").length, 1);
  assert.deepEqual(
    named(figure).map(({ name, x, y }) => [name, x, y]),
    [
      ["a", [0, 1], [0.1, 0.2]],
      ["b", [0, 1], [0.5, 0.6]],
    ],
  );
});

test("many runs have no intervals, and each tells of itself", () => {
  const lines = Array.from({ length: 20 }, (_, i) =>
    line(`<b>${i}`, ofRun([0, 7], [i, i + 1], { low: [0, 0], high: [1, 1] })),
  );
  const figure = draw({ lines });
  assert.equal(figure.layout.hovermode, "closest");
  assert.equal(figure.data.length, 20);
  assert.match(figure.data[3].hovertemplate, /&lt;b&gt;3/);
  assert.equal(figure.data[3].text[1], "step 7");
});

test("on the axis of time runs stand at their times and tell their steps", () => {
  const figure = draw({
    axisName: "time",
    range: [0, 7_000],
    lines: [line("a", ofRun([5, 9], [1, 2], { places: [0, 5_400] }))],
  });
  assert.deepEqual(figure.data[0].x, [0, 5_400]);
  assert.equal(figure.data[0].text[1], "1 h 30 min, step 9");
  assert.ok(figure.layout.xaxis.ticktext.includes("1 h"));
  const zoomed = shownFigure(figure, new ChartView({ range: [0, 3] }));
  assert.deepEqual(zoomed.layout.xaxis.ticktext, ["0 s", "1 s", "2 s", "3 s"]);
});

test("the one run that stands out is strong and the others stand back", () => {
  const figure = draw({
    lines: [line("a", ofRun([0, 1], [1, 2])), line("b", ofRun([0, 1], [1, 2]))],
    emphasis: "b",
  });
  assert.ok(figure.data[1].line.width > figure.data[0].line.width);
  assert.equal(figure.data[0].line.color, "rgba(1, 2, 3, 0.16)");
});

const mean = {
  group: 0,
  places: [0, 1, 2],
  mean: [1, 2, 3],
  low: [0.5, 1.5, null],
  high: [1.5, 2.5, null],
  lowest: [0, 1, 3],
  highest: [2, 3, 3],
  num_runs: [2, 2, 1],
};

test("the mean of a group is solid only where all of its runs go on", () => {
  const figure = draw({
    lines: [
      line("r1", ofRun([0, 1], [0, 1]), { isFaint: true }),
      line("r2", ofRun([0, 1, 2], [2, 3, 3]), { isFaint: true }),
    ],
    means: [{ name: "g", colour: "rgb(9, 9, 9)", dash: "solid", size: 2, series: mean }],
  });
  const solid = figure.data.find((trace) => trace.line?.width === 2.5 && trace.hoverinfo === "skip");
  assert.deepEqual(solid.y, [1, 2, null]);
  const dotted = figure.data.find((trace) => trace.line?.dash === "dot");
  assert.deepEqual(dotted.y, [1, 2, 3]);
  const told = figure.data.find((trace) => trace.customdata?.length === 3 && trace.name === "g");
  assert.deepEqual(told.customdata, [
    "  (0.500 to 1.500) of 2 runs",
    "  (1.500 to 2.500) of 2 runs",
    " of 1 run",
  ]);
});

test("around a mean stands what was asked for", () => {
  const bandOf = (band) =>
    draw({
      lines: [],
      means: [{ name: "g", colour: "rgb(9, 9, 9)", size: 2, series: mean }],
      band,
    }).data.find((trace) => trace.fill === "toself")?.y;
  assert.deepEqual(bandOf("interval"), [1.5, 2.5, 1.5, 0.5]);
  assert.deepEqual(bandOf("range"), [2, 3, 3, 3, 1, 0]);
  assert.equal(bandOf("none"), undefined);
});

test("the numbers of a figure tell whose they are", () => {
  const figure = draw({
    axisName: "time",
    lines: [line("a", ofRun([5], [1], { places: [60], low: [0], high: [2] }))],
  });
  assert.deepEqual(figureTable(figure), {
    columns: ["run", "step", "seconds", "value", "low", "high"],
    rows: [["a", 5, 60, 1, 0, 2]],
  });
  const grouped = draw({ lines: [], means: [{ name: "g", colour: "rgb(9, 9, 9)", size: 2, series: mean }] });
  assert.deepEqual(figureTable(grouped).rows[2], ["g", 2, 3, null, null, 3, 3, 1]);
});

const path = (diversity, dependence) => ({ steps: diversity.map((_, i) => i), diversity, dependence });

test("only what has both coordinates has a place in the plane", () => {
  assert.deepEqual(placedPath(path([1, null, 0.9], [0.5, 0.4, 0.3])), [
    { step: 0, diversity: 1, dependence: 0.5 },
    { step: 2, diversity: 0.9, dependence: 0.3 },
  ]);
});

test("the quadrant of few runs has steps, intervals, ends and names; that of many has ways and ends", () => {
  const runs = (count) =>
    Array.from({ length: count }, (_, i) => ({
      name: `run ${i}`,
      colour: "rgb(1, 2, 3)",
      symbol: "circle",
      dash: "solid",
      path: path([1, 0.9], [0.5, 0.4]),
      newest: point(2, 0.8, 0.3),
      thresholds: null,
    }));
  const options = { theme: THEME, compact: false, revision: "x" };
  const few = compareQuadrant({ runs: runs(2), ...options });
  assert.equal(few.data.length, 2 * 4);
  const texts = (figure) => figure.layout.annotations.map(({ text }) => text).join();
  assert.match(texts(few), /run 1/);
  const many = compareQuadrant({ runs: runs(20), ...options });
  assert.equal(many.data.length, 20 * 3);
  // Every step of many runs can be pointed at, and is no mark of its own.
  const steps = (figure) => figure.data.filter((trace) => trace.customdata?.length === 2);
  assert.deepEqual(new Set(steps(many).map(({ mode }) => mode)), new Set(["lines"]));
  assert.deepEqual(new Set(steps(few).map(({ mode }) => mode)), new Set(["markers"]));
  assert.equal(steps(many).length, 20);
  assert.doesNotMatch(texts(many), /run 1/);
  assert.deepEqual(figureTable(few).rows[0], ["run 0", 0, 1, 0.5]);
});

test("runs of a group are behind its mean way and still in view", () => {
  const options = { theme: THEME, compact: false, revision: "x" };
  const look = { colour: "rgb(1, 2, 3)", symbol: "circle", dash: "solid", thresholds: null };
  const figure = compareQuadrant({
    runs: [{ ...look, name: "r", path: path([3, 2.9], [0.5, 0.5]), newest: null, isFaint: true }],
    groups: [{ ...look, name: "g", path: path([1, 1], [0.5, 0.5]), size: 1 }],
    ...options,
  });
  assert.ok(figure.layout.xaxis.range[1] > 3);
  assert.equal(figure.data[0].line.width, 1);
  assert.equal(figureTable(figure).rows.length, 2);
});

test("without diversity skill stands between the limits of dependence", () => {
  const thresholds = { low_dependence: 0.1, high_dependence: 0.2, low_diversity: 0.5, high_diversity: 2 };
  const figure = draw({ lines: [line("a", ofRun([0, 1], [0.5, 0.4]))] });
  const grounded = onDependenceGround(figure, { thresholds, theme: THEME, compact: false, revision: "x" });
  assert.equal(grounded.data, figure.data);
  assert.ok(grounded.layout.shapes.length >= 2);
});
