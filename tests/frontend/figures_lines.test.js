import assert from "node:assert/strict";
import test from "node:test";

import { alertMarks } from "../../frontend/collapsewatch_frontend/static/js/figures/base.js";
import {
  hasHeatmap,
  heatmapFigure,
} from "../../frontend/collapsewatch_frontend/static/js/figures/heatmap.js";
import { lineFigure } from "../../frontend/collapsewatch_frontend/static/js/figures/lines.js";
import { THEME, series } from "./helpers.js";

test("alerts are lines on the step axis, resolved ones dotted, titles as text", () => {
  const marks = alertMarks(
    [
      { severity: "critical", status: "open", opened_step: 37, title: "<i>fell</i>" },
      { severity: "warning", status: "resolved", opened_step: 32, title: "fell" },
    ],
    THEME,
  );
  assert.deepEqual(
    marks.shapes.map((shape) => [shape.x0, shape.line.dash]),
    [
      [37, "solid"],
      [32, "dot"],
    ],
  );
  assert.ok(marks.annotations[0].hovertext.includes("&lt;i&gt;fell"));
});

test("a line figure draws band, chance line and alerts on one shared step axis", () => {
  const figure = lineFigure({
    theme: THEME,
    stepRange: [0, 100],
    yRange: [0, 1],
    alerts: [{ severity: "critical", status: "open", opened_step: 1, title: "fell" }],
    lines: [
      {
        name: "accuracy",
        colour: THEME.series[0],
        band: true,
        series: series([0, 1], [0.9, 0.5], { low: [0.8, 0.4], high: [1, 0.6] }),
      },
      { name: "chance", colour: THEME.muted, dash: "dash", series: series([0, 1], [0.125, 0.125]) },
    ],
  });
  const [band, accuracy, chance] = figure.data;
  assert.deepEqual(band.x, [0, 1, 1, 0]);
  assert.deepEqual(band.y, [1, 0.6, 0.4, 0.8]);
  assert.equal(accuracy.customdata[0], "  (0.800 to 1.000)");
  assert.equal(chance.line.dash, "dash");
  assert.deepEqual(figure.layout.xaxis.range, [-2, 102]);
  assert.equal(figure.layout.shapes.length, 1);
});

test("an absent value is a gap, not a zero", () => {
  const figure = lineFigure({
    theme: THEME,
    lines: [{ name: "mi", colour: THEME.series[0], series: series([0, 1, 2], [1, null, 1]) }],
  });
  assert.deepEqual(figure.data[0].y, [1, null, 1]);
  assert.equal(figure.data[0].connectgaps, false);
});

test("a narrow figure has fewer ticks and leaves dragging to the page", () => {
  const lines = [{ name: "a", colour: THEME.series[0], series: series([0, 1], [1, 2]) }];
  const wide = lineFigure({ theme: THEME, lines });
  const narrow = lineFigure({ theme: THEME, lines, compact: true });
  assert.ok(narrow.layout.xaxis.nticks < wide.layout.xaxis.nticks);
  assert.equal(narrow.layout.dragmode, false);
});

test("a heatmap needs every row of the matrix", () => {
  const prompt = (retrieved) => ({ group_ids: ["g"], preview: "<b>", retrieved });
  assert.equal(hasHeatmap([prompt([1, 0]), prompt([0, 1])]), true);
  assert.equal(hasHeatmap([prompt([1, 0]), prompt([])]), false);
  assert.equal(hasHeatmap([prompt([1])]), false);
  const figure = heatmapFigure({ prompts: [prompt([1, 0]), prompt([0, 1])], theme: THEME });
  assert.deepEqual(figure.data[0].z, [
    [1, 0],
    [0, 1],
  ]);
  assert.equal(figure.data[0].customdata[0][1][0], "&lt;b&gt;");
});

test("few steps have a tick each and none between them", () => {
  const lines = [{ name: "a", colour: THEME.series[0], series: series([3, 4], [1, 2]) }];
  const { xaxis } = lineFigure({ theme: THEME, lines, stepRange: [3, 4] }).layout;
  assert.deepEqual(
    [xaxis.tickvals, xaxis.ticktext],
    [
      [3, 4],
      ["step 3", "4"],
    ],
  );
  assert.equal(lineFigure({ theme: THEME, lines, stepRange: [0, 60] }).layout.xaxis.tickvals, undefined);
});

test("shares are shown in percent", () => {
  const shares = series([0, 1], [0.5, 1], { low: [0.25, 0.9], high: [0.75, 1] });
  const figure = lineFigure({
    theme: THEME,
    share: true,
    lines: [{ name: "valid", colour: THEME.series[0], series: shares }],
  });
  assert.equal(figure.layout.yaxis.tickformat, ".0%");
  assert.equal(figure.data[0].customdata[0], "  (25 % to 75 %)");
});
