import assert from "node:assert/strict";
import test from "node:test";

import { alertMarks, withAlpha } from "../../frontend/collapsewatch_frontend/static/js/figures/base.js";
import {
  dependenceFigure,
  dependenceOverlay,
} from "../../frontend/collapsewatch_frontend/static/js/figures/dependence.js";
import { ellipseOutline } from "../../frontend/collapsewatch_frontend/static/js/figures/ellipses.js";
import { heatmapFigure } from "../../frontend/collapsewatch_frontend/static/js/figures/heatmap.js";
import { placeLabels, textSize } from "../../frontend/collapsewatch_frontend/static/js/figures/labels.js";
import { lineFigure } from "../../frontend/collapsewatch_frontend/static/js/figures/lines.js";
import {
  hasPlace,
  overlayFigure,
  quadrantFigure,
} from "../../frontend/collapsewatch_frontend/static/js/figures/quadrant.js";
import { THEME, point, series } from "./helpers.js";

const THRESHOLDS = { low_dependence: 0.21, high_dependence: 0.41, low_diversity: 0.5, high_diversity: 2 };
const BASELINE = { skill: 0.83, conditional_entropy: 0.65, first_step: 2, last_step: 11, complete: true };
const TRAJECTORY = {
  points: [
    point(0, 1, 0.9),
    point(1, 1.02, 0.6),
    point(2, null, 0.5),
    point(3, 0.97, 0.1, { regime: "template_collapse" }),
  ],
  thresholds: THRESHOLDS,
  baseline: BASELINE,
};
const texts = (figure) =>
  figure.layout.annotations.map((annotation) => annotation.text.replace(/<[^>]+>/g, " "));

test("a colour takes an opacity, whatever way it is written", () => {
  assert.equal(withAlpha("rgb(1, 2, 3)", 0.5), "rgba(1, 2, 3, 0.5)");
  assert.equal(withAlpha("#ff8000", 0.25), "rgba(255, 128, 0, 0.25)");
  assert.equal(withAlpha("color(srgb 1 0 0)", 0.5), "color(srgb 1 0 0)");
});

test("the quadrant names its four regions and marks baseline and newest step", () => {
  const figure = quadrantFigure({ trajectory: TRAJECTORY, theme: THEME });
  const words = texts(figure).join(" ");
  for (const name of [
    "Diverse reasoning",
    "Template collapse",
    "Compressed reasoning",
    "Low-entropy collapse",
  ]) {
    assert.ok(words.replace(/\s+/g, " ").includes(name), `${name} is not named`);
  }
  assert.ok(words.includes("step 3"));
  const baseline = figure.data.find((trace) => trace.marker?.symbol === "x-thin");
  assert.deepEqual([baseline.x, baseline.y], [[1], [0.83]]);
});

test("points are coloured by step, and one without diversity has no place", () => {
  const figure = quadrantFigure({ trajectory: TRAJECTORY, theme: THEME });
  const points = figure.data.find((trace) => Array.isArray(trace.marker?.color));
  assert.deepEqual(points.marker.color, [0, 1, 3]);
  assert.equal(hasPlace(TRAJECTORY.points[2]), false);
});

test("the newest point wears its regime's colour, and an ellipse spans its intervals", () => {
  const figure = quadrantFigure({ trajectory: TRAJECTORY, theme: THEME });
  const newest = figure.data[figure.data.length - 1];
  assert.equal(newest.marker.color, THEME.regimes.template);
  const { x, y } = figure.data.filter((trace) => trace.fill === "toself").pop();
  const close = (a, b) => assert.ok(Math.abs(a - b) < 1e-12, `${a} is not ${b}`);
  close(Math.min(...x), 0.92);
  close(Math.max(...x), 1.02);
  close(Math.min(...y), 0);
  close(Math.max(...y), 0.2);
});

test("an ellipse reaches as far to each side as that side's limit", () => {
  const { x, y } = ellipseOutline({
    ...point(0, 1, 0.5),
    ...{ diversity_low: 0.7, diversity_high: 1.1, dependence_low: 0.45, dependence_high: 0.9 },
  });
  const ends = [Math.min(...x), Math.max(...x), Math.min(...y), Math.max(...y)];
  [0.7, 1.1, 0.45, 0.9].forEach((limit, i) => assert.ok(Math.abs(ends[i] - limit) < 1e-12));
  assert.ok(Math.abs(x[0] - x[x.length - 1]) < 1e-12 && Math.abs(y[0] - y[y.length - 1]) < 1e-12);
  assert.equal(ellipseOutline(point(0, 1, 0.5, { diversity_low: null })), null);
});

test("at an earlier step the way ends there, and what came later is faint", () => {
  const figure = quadrantFigure({ trajectory: TRAJECTORY, theme: THEME, selected: 1 });
  const newest = figure.data[figure.data.length - 1];
  assert.deepEqual([newest.x, newest.y], [[1.02], [0.6]]);
  const points = figure.data.find((trace) => Array.isArray(trace.marker?.color));
  assert.deepEqual(points.marker.color, [0, 1]);
  assert.equal(points.marker.cmax, 3);
  const later = figure.data.find((trace) => trace.ids?.includes("step-3"));
  assert.deepEqual(later.x, [0.97]);
  assert.ok(texts(figure).join(" ").includes("step 1"));
});

test("another run is ringed where it stood at the step that is looked at", () => {
  const ghosts = [{ name: "other", colour: THEME.series[3], points: TRAJECTORY.points }];
  const ring = (selected) =>
    quadrantFigure({ trajectory: TRAJECTORY, theme: THEME, ghosts, selected }).data.find(
      (trace) => trace.marker?.symbol === "circle-open" && trace.x.length === 1,
    );
  assert.deepEqual(ring(1).y, [0.6]);
  assert.equal(ring(null), undefined);
});

test("the change between two heatmaps has a scale around nothing", () => {
  const prompts = [
    { group_ids: ["a"], preview: "a", retrieved: [0.5, -0.5], number: 2 },
    { group_ids: ["b"], preview: "b", retrieved: [0, 0], number: 1 },
  ];
  const [trace] = heatmapFigure({ prompts, theme: THEME, difference: true }).data;
  assert.deepEqual([trace.zmin, trace.zmax], [-1, 1]);
  assert.equal(trace.colorscale[1][1], THEME.sunken);
  assert.deepEqual(trace.y, ["2", "1"]);
});

test("without a frozen baseline the thresholds are dotted floors and nothing is marked", () => {
  const figure = quadrantFigure({
    trajectory: { points: [point(0, 1, 0.9)], thresholds: null, baseline: null },
    theme: THEME,
  });
  const lines = figure.layout.shapes.filter((shape) => shape.type === "line");
  assert.ok(lines.length > 0 && lines.every((shape) => shape.line.dash === "dot"));
  assert.ok(!figure.data.some((trace) => trace.marker?.symbol === "x-thin"));
});

test("a quadrant without points can still be drawn", () => {
  const figure = quadrantFigure({
    trajectory: { points: [], thresholds: null, baseline: null },
    theme: THEME,
  });
  assert.deepEqual(figure.data, []);
});

test("a ghost lies behind the run and its name stays text", () => {
  const figure = quadrantFigure({
    trajectory: TRAJECTORY,
    theme: THEME,
    ghosts: [{ name: "<b>evil</b>", points: [point(0, 1, 0.95)], colour: THEME.series[3] }],
  });
  const all = JSON.stringify(figure);
  assert.ok(all.includes("&lt;b&gt;evil"));
  assert.ok(!all.includes("<b>evil"));
  assert.ok(figure.data.findIndex((t) => t.marker?.color === THEME.series[3]) < figure.data.length - 1);
});

test("what a later attempt superseded is a dotted trail behind the run, joined to it, and says so", () => {
  const figure = quadrantFigure({
    trajectory: TRAJECTORY,
    theme: THEME,
    earlier: [{ number: 1, points: [point(2, 1, 0.8), point(3, 1.1, 0.8)] }],
  });
  const [trail, steps] = figure.data;
  assert.equal(trail.line.dash, "dot");
  assert.deepEqual(steps.x, [1.02, 1, 1.1]);
  assert.match(steps.customdata[2], /attempt 1, superseded/);
  assert.equal(quadrantFigure({ trajectory: TRAJECTORY, theme: THEME }).data.length, figure.data.length - 2);
});

test("a resumed run is marked where it began again, in every figure over the steps", () => {
  const resumes = [{ step: 2, number: 2 }];
  const line = { name: "reward", colour: THEME.series[2], series: series([0, 1, 2], [1, 2, 3]) };
  const figures = [
    lineFigure({ theme: THEME, lines: [line], resumes }),
    dependenceFigure({ theme: THEME, trajectory: TRAJECTORY, resumes }),
  ];
  for (const figure of figures) {
    assert.ok(figure.layout.shapes.some((shape) => shape.x0 === 2 && shape.line.dash === "dash"));
    assert.ok(figure.layout.annotations.some((mark) => /resumed at step 2/.test(mark.hovertext ?? "")));
  }
});

test("an alert of a superseded step is dotted like a resolved one, and says where it was", () => {
  const alert = { severity: "critical", status: "open", opened_step: 4, title: "fell", superseded: true };
  const { shapes, annotations } = alertMarks([alert], THEME);
  assert.equal(shapes[0].line.dash, "dot");
  assert.match(annotations[0].hovertext, /step 4, in an earlier attempt/);
});

test("a superseded line is dotted, faint, without a band, and behind the run's own", () => {
  const own = {
    name: "accuracy",
    colour: "rgb(1, 2, 3)",
    band: true,
    series: series([0, 1], [0.9, 0.5], { low: [0.8, 0.4], high: [1, 0.6] }),
  };
  const earlier = [
    { name: "accuracy, attempt 1", colour: "rgb(1, 2, 3)", series: series([0, 1], [0.9, 0.8]) },
  ];
  const { data } = lineFigure({ theme: THEME, lines: [own], earlier });
  assert.equal(data.length, 3);
  assert.equal(data[0].line.dash, "dot");
  assert.equal(data[0].line.color, "rgba(1, 2, 3, 0.6)");
  assert.equal(data[2].name, "accuracy");
});

test("where diversity is unknown, too, earlier attempts are dotted behind the run", () => {
  const figure = dependenceFigure({
    theme: THEME,
    trajectory: { ...TRAJECTORY, points: [point(0, null, 0.9), point(1, null, 0.7)] },
    earlier: [{ number: 1, points: [point(1, null, 0.8), point(9, null, 0.1)] }],
  });
  assert.equal(figure.data[0].line.dash, "dot");
  assert.deepEqual(figure.data[0].x, [0, 1, 9]);
  assert.ok(figure.layout.xaxis.range[1] > 9);
});

test("compared runs keep a colour each", () => {
  const runs = ["a", "b"].map((name, i) => ({ name, trajectory: TRAJECTORY, colour: THEME.series[i] }));
  const figure = overlayFigure({ runs, theme: THEME });
  for (const run of runs) assert.ok(figure.data.some((trace) => trace.marker?.color === run.colour));
});

test("where diversity is unknown the vertical axis stands over the steps", () => {
  const points = [point(4, null, 0.9), point(5, null, 0.2)];
  const figure = dependenceFigure({
    trajectory: { points, thresholds: THRESHOLDS, baseline: null },
    theme: THEME,
  });
  const skill = figure.data.find((trace) => trace.mode === "lines+markers");
  assert.deepEqual(
    [skill.x, skill.y],
    [
      [4, 5],
      [0.9, 0.2],
    ],
  );
  assert.equal(figure.layout.shapes[0].y0, THRESHOLDS.high_dependence);
});

test("the step axis of compared runs reaches to the end of the longest", () => {
  const run = (name, steps) => ({
    name,
    colour: THEME.series[0],
    trajectory: { points: steps.map((step) => point(step, null, 0.5)), thresholds: null, baseline: null },
  });
  const figure = dependenceOverlay({
    runs: [run("long", [0, 100]), run("<b>short", [10, 50])],
    theme: THEME,
  });
  assert.deepEqual(figure.layout.xaxis.range, [-2, 102]);
  assert.ok(JSON.stringify(figure.data).includes("&lt;b&gt;short"));
});

const PLOT = { width: 400, height: 300 };

test("a name stands on the other side when a mark is on this one, and stays inside the plot", () => {
  const label = { x: 200, y: 150, text: "a run" };
  assert.equal(placeLabels([label], PLOT)[0].xanchor, "left");
  assert.equal(placeLabels([label], { ...PLOT, marks: [{ x: 230, y: 150 }] })[0].xanchor, "right");
  assert.equal(placeLabels([{ ...label, x: 390 }], PLOT)[0].xanchor, "right");
});

test("two names beside one another do not overlap", () => {
  const labels = [
    { x: 200, y: 150, text: "the first run" },
    { x: 202, y: 154, text: "the second run" },
  ];
  const [first, second] = placeLabels(labels, PLOT);
  assert.notDeepEqual([first.xanchor, first.yanchor], [second.xanchor, second.yanchor]);
  assert.ok(textSize(labels[1].text).width > textSize(labels[0].text).width);
});

test("the overlaid run's name leaves the baseline visible", () => {
  const ghost = { name: "sibling", points: [point(0, 0.96, 0.83)], colour: THEME.series[3] };
  const figure = quadrantFigure({ trajectory: TRAJECTORY, theme: THEME, ghosts: [ghost] });
  const label = figure.layout.annotations.find((annotation) => annotation.text.includes("sibling"));
  assert.notEqual(label.xanchor === "left" && label.yanchor === "middle", true);
});

test("a narrow quadrant leaves the names of several runs to the legend", () => {
  const runs = ["a run", "another"].map((name, i) => ({
    name,
    trajectory: TRAJECTORY,
    colour: THEME.series[i],
  }));
  assert.ok(
    texts(overlayFigure({ runs, theme: THEME }))
      .join()
      .includes("another"),
  );
  assert.ok(
    !texts(overlayFigure({ runs, theme: THEME, compact: true }))
      .join()
      .includes("another"),
  );
});

const opened = (alert_id, severity, step, extra = {}) => ({
  alert_id,
  severity,
  opened_step: step,
  status: "open",
  title: `<b>${severity}</b>`,
  superseded: false,
  ...extra,
});

test("a severity has its own sign as well as its colour, and the sign knows its alert", () => {
  const alerts = [opened(3, "critical", 1), opened(4, "warning", 2), opened(5, "info", 3)];
  const { annotations } = alertMarks(alerts, THEME);
  assert.deepEqual(
    annotations.map(({ name, text }) => [name, text]),
    [
      ["3", "◆"],
      ["4", "▲"],
      ["5", "●"],
    ],
  );
  assert.equal(new Set(annotations.map(({ font }) => font.color)).size, 3);
  assert.ok(annotations.every(({ hovertext }) => !hovertext.includes("<b>")));
});

test("an alert of a replayed step stands back behind one that counts", () => {
  const alerts = [opened(3, "critical", 1), opened(4, "critical", 2, { superseded: true })];
  const { shapes, annotations } = alertMarks(alerts, THEME);
  const opacity = ({ color }) => Number(/([\d.]+)\)$/.exec(color)[1]);
  assert.ok(opacity(shapes[1].line) < opacity(shapes[0].line) / 2);
  assert.match(annotations[1].font.color, /^rgba\(.*0\.5\)$/);
  assert.match(annotations[1].hovertext, /in an earlier attempt/);
});

test("the quadrant rings the points where alerts opened, and those points lead to them", () => {
  const alerts = [
    opened(6, "warning", 3),
    opened(7, "critical", 3),
    opened(8, "warning", 2),
    opened(9, "info", 1, { superseded: true }),
    opened(10, "warning", 99),
  ];
  const figure = quadrantFigure({ trajectory: TRAJECTORY, alerts, theme: THEME });
  const ring = figure.data.find((trace) => Array.isArray(trace.marker?.symbol));
  // Step 2 has no diversity and so no place; 9 is of an earlier attempt, 10 of a step that is not there.
  assert.deepEqual([ring.x, ring.y, ring.marker.symbol], [[0.97], [0.1], ["diamond-open"]]);
  const points = figure.data.find((trace) => trace.ids?.length === 3);
  assert.deepEqual(points.ids, ["step-0", "step-1", "7"]);
  assert.match(points.customdata[2], /Critical: &lt;b&gt;critical.*Warning: &lt;b&gt;warning.*step 3/);
  const newest = figure.data.find((trace) => trace.ids?.length === 1);
  assert.deepEqual(newest.ids, ["7"]);
  const without = quadrantFigure({ trajectory: TRAJECTORY, theme: THEME });
  assert.equal(
    without.data.some((trace) => Array.isArray(trace.marker?.symbol)),
    false,
  );
});
