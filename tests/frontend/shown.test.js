import assert from "node:assert/strict";
import test from "node:test";

import { ChartView } from "../../frontend/collapsewatch_frontend/static/js/chart_view.js";
import { Clock, asLocal } from "../../frontend/collapsewatch_frontend/static/js/clock.js";
import { lineFigure } from "../../frontend/collapsewatch_frontend/static/js/figures/lines.js";
import { shownFigure } from "../../frontend/collapsewatch_frontend/static/js/figures/shown.js";
import {
  csvText,
  fileName,
  figureTable,
} from "../../frontend/collapsewatch_frontend/static/js/figures/table.js";
import { smoothed } from "../../frontend/collapsewatch_frontend/static/js/smoothing.js";
import { THEME, series } from "./helpers.js";

const steps = [0, 1, 2, 3];
const figure = (values = [1, 2, 4, 8], options = {}) =>
  lineFigure({
    theme: THEME,
    stepRange: [0, 3],
    references: [
      { value: 3, name: "limit" },
      { value: -1, name: "floor" },
    ],
    alerts: [{ alert_id: 1, opened_step: 2, severity: "critical", title: "t", status: "open" }],
    lines: [
      {
        name: "skill",
        colour: THEME.series[0],
        band: true,
        series: series(steps, values, { low: [0, 1, 3, 7], high: [2, 3, 5, 9] }),
      },
    ],
    ...options,
  });
const named = (shown) => shown.data.find((trace) => trace.meta?.column === "skill");

test("smoothing takes the mean that a slow sum gives, without a pull towards zero", () => {
  const values = [1, 3, 2, 6];
  const slow = values.map((_, i) => {
    const weights = values.slice(0, i + 1).map((__, j) => 0.5 ** (i - j));
    const sum = weights.reduce((all, weight, j) => all + weight * values[j], 0);
    return sum / weights.reduce((all, weight) => all + weight, 0);
  });
  smoothed([0, 1, 2, 3], values, 0.5).forEach((value, i) => assert.ok(Math.abs(value - slow[i]) < 1e-12));
  assert.deepEqual(
    smoothed([0, 1, 2], [5, 5, 5], 0.9).map((value) => Math.round(value * 1e9) / 1e9),
    [5, 5, 5],
  );
});

test("after a gap the past counts less, and absent values count as nothing", () => {
  const [, , afterGap] = smoothed([0, 1, 11], [0, 0, 1], 0.5);
  const [, , atOnce] = smoothed([0, 1, 2], [0, 0, 1], 0.5);
  assert.ok(afterGap > 0.99 && atOnce < 0.6);
  assert.deepEqual(smoothed([0, 1, 2], [1, null, 1], 0.5), [1, null, 1]);
});

test("a smoothed line keeps its measured values behind it, faint and mute", () => {
  const shown = shownFigure(figure(), new ChartView({ smoothing: 0.8 }));
  const lines = shown.data.filter((trace) => trace.mode === "lines" && trace.fill !== "toself");
  assert.equal(lines.length, 2);
  assert.deepEqual(lines[0].y, [1, 2, 4, 8]);
  assert.equal(lines[0].hoverinfo, "skip");
  assert.ok(lines[1].y[3] < 8);
  assert.match(lines[1].hovertemplate, /measured/);
});

test("a logarithmic axis leaves out what is not above zero, and says how many values", () => {
  const shown = shownFigure(figure([0, 2, -4, 8]), new ChartView({ log: true }));
  assert.equal(shown.layout.yaxis.type, "log");
  assert.equal(shown.numLeftOut, 2);
  assert.deepEqual(named(shown).y, [null, 2, null, 8]);
  const levels = shown.layout.shapes.filter((shape) => shape.yref === "y");
  assert.deepEqual(
    levels.map((shape) => shape.y0),
    [3],
  );
  const label = shown.layout.annotations.find((each) => each.text === "limit");
  assert.ok(Math.abs(label.y - Math.log10(3)) < 1e-12);
  assert.ok(shown.data.find((trace) => trace.fill === "toself").y.every((value) => value > 0));
});

test("stacked shares have no logarithmic axis", () => {
  const shown = shownFigure(figure([0.1, 0.2, 0.3, 0.4], { stacked: true }), new ChartView({ log: true }));
  assert.notEqual(shown.layout.yaxis.type, "log");
});

test("where zero is a place of its own the scale stays as it is", () => {
  const shown = shownFigure({ ...figure(), isLinear: true }, new ChartView({ log: true }));
  assert.notEqual(shown.layout.yaxis.type, "log");
  assert.deepEqual(named(shown).y, [1, 2, 4, 8]);
});

test("in a stretch the step axis has its range and the value axis fits what is left", () => {
  const shown = shownFigure(figure(), new ChartView({ range: [1, 2] }));
  assert.deepEqual(shown.layout.xaxis.range, [1, 2]);
  assert.deepEqual(shown.layout.xaxis.tickvals, [1, 2]);
  const [low, high] = shown.layout.yaxis.range;
  assert.ok(low < 1 && high >= 5 && high < 7, `${low} to ${high}`);
});

test("on an axis of times every place on the steps moves, and the text still tells the step", () => {
  const view = new ChartView({ axis: "time" });
  view.setClock(new Clock({ steps: [0, 3], times: [1_000_000, 4_000_000] }));
  const shown = shownFigure(figure(), view);
  assert.equal(shown.layout.xaxis.type, "date");
  assert.deepEqual(
    named(shown).x,
    [1, 2, 3, 4].map((million) => asLocal(million * 1_000_000)),
  );
  assert.equal(named(shown).text[2], "step 2");
  const mark = shown.layout.annotations.find((each) => each.name === "1");
  assert.equal(mark.x, asLocal(3_000_000));
  const level = shown.layout.shapes.find((shape) => shape.xref === "paper");
  assert.deepEqual([level.x0, level.x1], [0, 1]);
});

test("checkpoints stand at the foot, off the value axis, and their names stay text", () => {
  const view = new ChartView({ log: true, range: [0, 2] });
  view.setClock(null, [{ step: 2, policy_version: "<b>v2</b>" }]);
  const shown = shownFigure(figure(), view);
  const marks = shown.data.find((trace) => trace.name === "checkpoint");
  assert.deepEqual([marks.x, marks.y, marks.yaxis], [[2], [0], "y2"]);
  assert.equal(marks.text[0], "checkpoint &lt;b&gt;v2&lt;/b&gt; from step 2");
  assert.deepEqual(shown.layout.yaxis2.range, [0, 1]);
  assert.equal(shown.numLeftOut, 0);
  assert.equal(shownFigure(figure(), new ChartView()).layout.yaxis2, undefined);
});

test("a figure that is not over steps stays as it is", () => {
  const plane = { data: [{ x: [1], y: [2] }], layout: {} };
  assert.equal(shownFigure(plane, new ChartView({ smoothing: 0.5, log: true, range: [0, 1] })), plane);
});

test("the numbers of a figure are those in view, measured and smoothed, with their limits", () => {
  const view = new ChartView({ smoothing: 0.5, range: [1, 2] });
  const table = figureTable(shownFigure(figure(), view), view);
  assert.deepEqual(table.columns, ["step", "skill", "skill (smoothing 0.5)", "skill low", "skill high"]);
  assert.deepEqual(
    table.rows.map((row) => [row[0], row[1], row[3], row[4]]),
    [
      [1, 2, 1, 3],
      [2, 4, 3, 5],
    ],
  );
});

test("known times stand beside the steps", () => {
  const view = new ChartView();
  view.setClock(new Clock({ steps: [0, 3], times: [0, 3000] }));
  const { columns, rows } = figureTable(shownFigure(figure(), view), view);
  assert.equal(columns[1], "time");
  assert.equal(rows[1][1], "1970-01-01T00:00:01.000Z");
});

test("numbers keep their precision in CSV, and text cannot become a formula", () => {
  const text = csvText({
    columns: ["step", '=HYPERLINK("x")', "a,b"],
    rows: [
      [1, 0.1234567890123, null],
      ["-2", 'say "so"', Number.NaN],
    ],
  });
  assert.equal(text, 'step,"\'=HYPERLINK(""x"")","a,b"\r\n1,0.1234567890123,\r\n\'-2,"say ""so""",\r\n');
});

test("a file name holds nothing that a file system minds", () => {
  assert.equal(fileName(["../../etc/passwd", "Réward <b>"], "csv"), "etc-passwd-re-ward-b.csv");
  assert.equal(fileName(["…"], "png"), "figure.png");
});
