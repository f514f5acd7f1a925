/** The ways of several runs, and the mean ways of groups, through one quadrant. Pure. */

import { placeWords } from "../elapsed.js";
import { formatInterval, formatNumber, isNumber, plotlyText } from "../format.js";
import { regimeInfo } from "../regimes.js";
import { rollingMean } from "../series.js";
import { withAlpha } from "./base.js";
import { dependenceOverlay } from "./dependence.js";
import { ellipseTrace } from "./ellipses.js";
import { overlayFigure } from "./quadrant.js";

const TREND_WINDOW = 9;
/** Of more runs neither the single steps nor the intervals are drawn, only the ways. */
const MOST_WITH_STEPS = 4;
const MOST_WITH_INTERVALS = 8;
const FAINT = 0.18;

/** Points of a path that have a place in the plane. */
export function placedPath({ steps, diversity, dependence }) {
  return steps
    .map((step, i) => ({ step, diversity: diversity[i], dependence: dependence[i] }))
    .filter((point) => isNumber(point.diversity) && isNumber(point.dependence));
}

/**
 * `runs`: `{name, colour, symbol, dash, path, newest, thresholds, isFaint?}`; `groups` the same without `newest`,
 * with `size`, the number of their runs. A faint run belongs to a group. The regions are those of the first run.
 */
export function compareQuadrant({ runs, groups = [], emphasis = null, theme, compact, revision, size }) {
  const all = [...runs, ...groups].map((one) => ({ ...one, points: placedPath(one.path) }));
  const shown = all.filter((one) => one.points.length > 0);
  const strong = shown.filter((one) => !one.isFaint);
  const base = overlayFigure({
    theme,
    compact,
    revision,
    size,
    thresholds: all[0]?.thresholds ?? groups[0]?.thresholds ?? null,
    runs: strong.map(({ name, points, newest }) => ({
      name,
      trajectory: { points: newest === undefined ? points : [...points, ...withPlace(newest)] },
    })),
    others: shown.filter((one) => one.isFaint).flatMap((one) => one.points),
  });
  const drawn = { emphasis, theme, count: strong.length };
  return { ...base, data: shown.flatMap((one) => wayTraces(one, drawn)), table: () => pathTable(shown) };
}

const withPlace = (point) =>
  point !== null && isNumber(point.diversity) && isNumber(point.dependence) ? [point] : [];

function wayTraces(one, { emphasis, theme, count }) {
  const { name, colour, symbol, dash, points, newest, isFaint = false } = one;
  const isOut = emphasis !== null && emphasis !== name;
  const opacity = isFaint ? 0.3 : isOut ? FAINT : 0.9;
  const last = withPlace(newest ?? null)[0] ?? points[points.length - 1];
  const way = {
    type: "scatter",
    mode: "lines",
    x: rollingMean(
      points.map((point) => point.diversity),
      TREND_WINDOW,
    ),
    y: rollingMean(
      points.map((point) => point.dependence),
      TREND_WINDOW,
    ),
    line: {
      color: withAlpha(colour, opacity),
      width: isFaint ? 1 : emphasis === name ? 3.5 : 2.25,
      dash,
      shape: "spline",
      smoothing: 0.6,
    },
    hoverinfo: "skip",
  };
  if (isFaint) return [way];
  const hover = (point) => `<b>${plotlyText(name)}</b><br>${pointText(point, one)}`;
  const showsSteps = count <= MOST_WITH_STEPS && !isOut;
  const steps = {
    type: "scatter",
    // Steps that are only pointed at are no marks of their own: thousands that nobody sees take half a second.
    ...(showsSteps
      ? { mode: "markers", marker: { color: withAlpha(colour, 0.4), size: 5.5, symbol } }
      : { mode: "lines", line: { width: 0, color: withAlpha(colour, 0) } }),
    x: points.map((point) => point.diversity),
    y: points.map((point) => point.dependence),
    customdata: points.map(hover),
    hovertemplate: "%{customdata}<extra></extra>",
  };
  const end = {
    type: "scatter",
    mode: "markers",
    x: [last.diversity],
    y: [last.dependence],
    cliponaxis: false,
    customdata: [hover(last)],
    hovertemplate: "%{customdata}<extra></extra>",
    marker: {
      symbol,
      size: count <= MOST_WITH_STEPS ? 13 : 11,
      color: withAlpha(colour, isOut ? FAINT : 1),
      line: { color: theme.surface, width: 2 },
    },
  };
  const interval = count <= MOST_WITH_INTERVALS && !isOut && newest ? ellipseTrace(newest, colour) : [];
  return [way, steps, ...interval, end];
}

function pointText(point, { size }) {
  const spread = (low, high) => {
    const text = formatInterval(low, high);
    return text === "" ? "" : `  (${text})`;
  };
  const regime = point.regime === undefined ? "" : `  ${plotlyText(regimeInfo(point.regime).name)}`;
  const mean = size === undefined ? "" : "mean ";
  return (
    `${placeWords("step", point.step)}${regime}<br>` +
    `${mean}retrieval skill ${formatNumber(point.dependence)}${spread(point.dependence_low, point.dependence_high)}<br>` +
    `${mean}diversity ${formatNumber(point.diversity)}×${spread(point.diversity_low, point.diversity_high)}`
  );
}

const pathTable = (shown) => ({
  columns: ["run or group", "step", "diversity", "dependence"],
  rows: shown
    .filter((one) => !one.isFaint)
    .flatMap(({ name, points }) =>
      points.map(({ step, diversity, dependence }) => [name, step, diversity, dependence]),
    ),
});

/** A figure of skill over the axis, between the limits of dependence: where no diversity is known. */
export function onDependenceGround(figure, { thresholds, theme, compact, revision }) {
  const ground = dependenceOverlay({
    runs: [{ trajectory: { points: [], thresholds } }],
    theme,
    compact,
    revision,
  });
  const { shapes, annotations, yaxis, margin } = ground.layout;
  return { ...figure, layout: { ...figure.layout, shapes, annotations, yaxis, margin } };
}
