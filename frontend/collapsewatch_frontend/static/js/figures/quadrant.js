/** The quadrant: within-input diversity against input dependence, one point per step. Pure. */

import { formatStep, plotlyText, shortName } from "../format.js";
import { FLOOR_THRESHOLDS, quadrantRange, quadrantRegions, regimeInfo } from "../regimes.js";
import { axis, baseLayout, withAlpha } from "./base.js";
import { placeLabels, textSize } from "./labels.js";
import {
  alertTraces,
  alertsByStep,
  baselineMarks,
  baselineTrace,
  earlierTrail,
  laterTrace,
  newestTrace,
  placedPoints,
  runTraces,
  sameStepTrace,
  trajectoryTraces,
} from "./quadrant_traces.js";
import { intervalTraces } from "./ellipses.js";

const NAME_LENGTH = 38;
const DEFAULT_SIZE = { width: 680, height: 560 };

export { hasPlace } from "./quadrant_traces.js";

/**
 * One run's trajectory; `ghosts` are other runs drawn behind it, `earlier` what later attempts superseded,
 * `alerts` are marked at the step where they opened. `selected` is the step at which the way is looked at: what
 * came later is faint; null for the newest.
 *
 * `trajectory` is an answer of the API; of `ghosts` each has `{name, points, colour}`; `size` is that of the
 * figure in pixels, for the place of the names.
 * @param {Record<string, any>} figure
 */
export function quadrantFigure({
  trajectory,
  theme,
  ghosts = [],
  earlier = [],
  alerts = [],
  selected = null,
  compact = false,
  revision,
  size = DEFAULT_SIZE,
}) {
  const whole = placedPoints(trajectory.points);
  const points = selected === null ? whole : whole.filter((point) => point.step <= selected);
  const opened = alertsByStep(alerts);
  const thresholds = trajectory.thresholds ?? FLOOR_THRESHOLDS;
  const all = [...whole, ...[...ghosts, ...earlier].flatMap((other) => placedPoints(other.points))];
  const range = quadrantRange(all, thresholds, { compact });
  const newestStep = points.length === 0 ? null : points[points.length - 1].step;
  const ends = [
    { points, text: `step ${formatStep(newestStep)}`, strong: true },
    ...ghosts.map(({ name, points: path }) => ({ points: placedPoints(path), text: name, strong: false })),
  ];
  return {
    table: () => pointTable(trajectory.points),
    data: [
      ...earlier.flatMap((attempt) => earlierTrail(whole, attempt, theme)),
      ...ghosts.flatMap((ghost) => runTraces(placedPoints(ghost.points), ghost, theme)),
      ...laterTrace(whole.slice(points.length), theme),
      ...intervalTraces(points, theme),
      ...trajectoryTraces(points, { theme, compact, opened, whole }),
      ...ghosts.flatMap((ghost) => sameStepTrace(placedPoints(ghost.points), newestStep, ghost, theme)),
      ...alertTraces(points, opened, theme),
      ...baselineTrace(trajectory.baseline, theme),
      ...points.slice(-1).map((point) => newestTrace(point, theme, opened)),
    ],
    layout: quadrantLayout({
      theme,
      thresholds,
      range,
      compact,
      revision,
      frozen: trajectory.thresholds !== null,
      hasScale: points.length > 0,
      ends,
      marks: baselineMarks(trajectory.baseline),
      size,
    }),
  };
}

const COLUMNS = [
  "step",
  "dependence",
  "dependence_low",
  "dependence_high",
  "diversity",
  "diversity_low",
  "diversity_high",
  "regime",
  "scorer",
];

const pointTable = (points) => ({
  columns: COLUMNS,
  rows: points.map((point) => COLUMNS.map((column) => point[column])),
});

/** More names than these would hide the ways that they stand beside. */
const MOST_NAMES = 6;

/**
 * Several runs in one plane, each in its own colour; the regions are those of `thresholds`, else of the first
 * run. `others` are further points that have to be in view.
 */
export function overlayFigure({
  runs,
  theme,
  thresholds: given,
  others = [],
  compact = false,
  revision,
  size = DEFAULT_SIZE,
}) {
  const frozen = given ?? runs[0]?.trajectory.thresholds ?? null;
  const thresholds = frozen ?? FLOOR_THRESHOLDS;
  const all = [...others, ...runs.flatMap((run) => placedPoints(run.trajectory.points))];
  const range = quadrantRange(all, thresholds, { compact });
  const named = runs.length <= MOST_NAMES ? runs : [];
  return {
    data: runs.flatMap((run) =>
      runTraces(placedPoints(run.trajectory.points), { ...run, strong: true }, theme),
    ),
    layout: quadrantLayout({
      theme,
      thresholds,
      range,
      compact,
      revision,
      frozen: frozen !== null,
      hasScale: false,
      ends: named.map(({ name, trajectory }) => ({
        points: placedPoints(trajectory.points),
        text: name,
        strong: true,
      })),
      size,
    }),
  };
}

function quadrantLayout({ theme, thresholds, range, compact, revision, frozen, hasScale, ...labelled }) {
  const below = (hasScale ? 40 : 0) + (compact ? 58 : 50);
  const margin = { l: 50, r: 12, t: 10, b: below };
  const regions = quadrantRegions(thresholds, range);
  const regionLabels = regions.map((region) => regionLabel(region, { theme, compact }));
  return {
    ...baseLayout(theme, { revision, compact, margin }),
    hovermode: "closest",
    xaxis: axis(theme, {
      title: compact ? "diversity: H(Z|X) ÷ baseline" : "within-input diversity: H(Z|X) ÷ baseline",
      range: range.x,
      nticks: compact ? 5 : 8,
      fixedrange: compact,
      ticksuffix: "×",
      showgrid: false,
    }),
    yaxis: axis(theme, {
      title: compact ? "retrieval skill" : "input dependence: retrieval skill (0 chance, 1 perfect)",
      range: range.y,
      tickvals: [0, 0.25, 0.5, 0.75, 1],
      fixedrange: compact,
      showgrid: false,
    }),
    shapes: [
      ...regions.map((region) => regionShape(region, theme)),
      ...thresholdShapes(thresholds, range, theme, frozen),
    ],
    annotations: [
      ...regionLabels,
      ...endLabels({ ...labelled, theme, range, compact, margin, regionLabels }),
    ],
  };
}

function regionShape({ regime, x0, x1, y0, y1 }, theme) {
  return {
    type: "rect",
    layer: "below",
    ...{ x0, x1, y0, y1 },
    line: { width: 0 },
    fillcolor: withAlpha(theme.regimes[regimeInfo(regime).colour], theme.dark ? 0.16 : 0.1),
  };
}

/** Names stand in the outer corners, where trajectories seldom go. */
function regionLabel({ regime, x0, x1, y1, y0 }, { theme, compact }) {
  const info = regimeInfo(regime);
  const left = regime === "compressed_reasoning" || regime === "low_entropy_collapse";
  const top = regime === "compressed_reasoning" || regime === "diverse_reasoning";
  return {
    x: left ? x0 : x1,
    xanchor: left ? "left" : "right",
    y: top ? y1 : y0,
    yanchor: top ? "top" : "bottom",
    xshift: left ? 6 : -6,
    yshift: top ? -4 : 4,
    align: left ? "left" : "right",
    text: `<b>${left ? info.name.replace(" ", "<br>") : info.name}</b>`,
    showarrow: false,
    font: { color: theme.regimes[info.colour], size: compact ? theme.fontSize - 1 : theme.fontSize },
  };
}

function thresholdShapes(thresholds, range, theme, frozen) {
  const line = { color: theme.muted, width: 1, dash: frozen ? "solid" : "dot" };
  const across = (y) => ({
    type: "line",
    layer: "below",
    x0: range.x[0],
    x1: range.x[1],
    y0: y,
    y1: y,
    line,
  });
  const upright = (x) => ({
    type: "line",
    layer: "below",
    x0: x,
    x1: x,
    y0: range.y[0],
    y1: range.y[1],
    line,
  });
  const shapes = [
    across(thresholds.low_dependence),
    across(thresholds.high_dependence),
    upright(thresholds.low_diversity),
  ];
  if (range.x[1] > thresholds.high_diversity) shapes.push(upright(thresholds.high_diversity));
  return shapes;
}

/**
 * Names beside the newest points, on a patch of the ground so that they read over other points.
 * A narrow plot has room for the run's own step only; the legend names the others.
 * @param {Record<string, any>} figure
 */
function endLabels({ ends, marks = [], theme, range, compact, margin, size, regionLabels }) {
  const width = size.width - margin.l - margin.r;
  const height = size.height - margin.t - margin.b;
  const place = ({ diversity, dependence }) => ({
    x: (width * (diversity - range.x[0])) / (range.x[1] - range.x[0]),
    y: (height * (dependence - range.y[0])) / (range.y[1] - range.y[0]),
  });
  const there = ends.filter((end) => end.points.length > 0);
  const newest = there.map(({ points }) => points[points.length - 1]);
  const named = there
    .map((end, i) => ({
      ...end,
      ...place(newest[i]),
      point: newest[i],
      text: shortName(end.text, NAME_LENGTH),
    }))
    .filter((end) => !compact || (end.strong && there.filter((other) => other.strong).length === 1));
  const places = placeLabels(named, {
    width,
    height,
    marks: [...marks, ...newest].map(place),
    blocks: regionLabels.map((label) => regionBox(label, place)),
    dots: there.flatMap(({ points }) => points.map(place)),
  });
  return named.map(({ point, text, strong }, i) => ({
    ...places[i],
    x: point.diversity,
    y: point.dependence,
    text: `<b>${plotlyText(text)}</b>`,
    showarrow: false,
    bgcolor: withAlpha(theme.surface, 0.78),
    borderpad: 2,
    font: { color: strong ? theme.text : theme.textSoft, size: theme.fontSize },
  }));
}

/** The room that a region's name takes in its corner, in pixels. */
function regionBox({ x, y, xanchor, yanchor, text }, place) {
  const lines = text.replace(/<\/?b>/g, "").split("<br>");
  const width = Math.max(...lines.map((line) => textSize(line).width));
  const height = lines.length * textSize("").height;
  const corner = place({ diversity: x, dependence: y });
  const x0 = xanchor === "left" ? corner.x : corner.x - width;
  const y0 = yanchor === "bottom" ? corner.y : corner.y - height;
  return { x0, x1: x0 + width, y0, y1: y0 + height };
}
