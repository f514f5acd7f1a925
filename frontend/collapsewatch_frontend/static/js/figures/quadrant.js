/** The quadrant: within-input diversity against input dependence, one point per step. Pure. */

import { formatInterval, formatNumber, formatStep, isNumber, plotlyText, shortName } from "../format.js";
import { FLOOR_THRESHOLDS, quadrantRange, quadrantRegions, regimeInfo } from "../regimes.js";
import { rollingMean } from "../series.js";
import { axis, baseLayout, withAlpha } from "./base.js";
import { placeLabels, textSize } from "./labels.js";

const TREND_WINDOW = 9;
const NAME_LENGTH = 38;
const DEFAULT_SIZE = { width: 680, height: 560 };

/** Whether a point has a place in the plane: both coordinates known. */
export function hasPlace(point) {
  return isNumber(point.diversity) && isNumber(point.dependence);
}

const placedPoints = (points) => points.filter(hasPlace);

/**
 * One run's trajectory; `ghosts` are other runs drawn behind it.
 *
 * @param {object} trajectory answer of the API: points, thresholds, baseline
 * @param {{name: string, points: object[], colour: string}[]} ghosts
 * @param {{width: number, height: number}} size of the figure in pixels, for the place of the names
 */
export function quadrantFigure({
  trajectory,
  theme,
  ghosts = [],
  compact = false,
  revision,
  size = DEFAULT_SIZE,
}) {
  const points = placedPoints(trajectory.points);
  const thresholds = trajectory.thresholds ?? FLOOR_THRESHOLDS;
  const all = [...points, ...ghosts.flatMap((ghost) => placedPoints(ghost.points))];
  const range = quadrantRange(all, thresholds, { compact });
  const newestStep = points.length === 0 ? null : points[points.length - 1].step;
  const ends = [
    { points, text: `step ${formatStep(newestStep)}`, strong: true },
    ...ghosts.map(({ name, points: path }) => ({ points: placedPoints(path), text: name, strong: false })),
  ];
  return {
    data: [
      ...ghosts.flatMap((ghost) => runTraces(placedPoints(ghost.points), ghost, theme)),
      ...trajectoryTraces(points, theme, compact),
      ...baselineTrace(trajectory.baseline, theme),
      ...points.slice(-1).map((point) => newestTrace(point, theme)),
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

/** Several runs in one plane, each in its own colour; thresholds are those of the first. */
export function overlayFigure({ runs, theme, compact = false, revision, size = DEFAULT_SIZE }) {
  const thresholds = runs[0]?.trajectory.thresholds ?? FLOOR_THRESHOLDS;
  const all = runs.flatMap((run) => placedPoints(run.trajectory.points));
  const range = quadrantRange(all, thresholds, { compact });
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
      frozen: Boolean(runs[0]?.trajectory.thresholds),
      hasScale: false,
      ends: runs.map(({ name, trajectory }) => ({
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
  // The buttons that appear on hover have their own line above a wide plot.
  const margin = { l: 50, r: 12, t: compact ? 10 : 30, b: below };
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

/** Where the baseline stands in the plane: at its own diversity, 1, and its skill. */
function baselineMarks(baseline) {
  return baseline && isNumber(baseline.skill) ? [{ diversity: 1, dependence: baseline.skill }] : [];
}

function baselineTrace(baseline, theme) {
  if (baselineMarks(baseline).length === 0) return [];
  const span = `steps ${formatStep(baseline.first_step)} to ${formatStep(baseline.last_step)}`;
  return [
    {
      type: "scatter",
      mode: "markers",
      x: [1],
      y: [baseline.skill],
      marker: { symbol: "x-thin", size: 13, line: { color: theme.text, width: 2 } },
      hovertemplate:
        `<b>Baseline</b> (${span}${baseline.complete ? "" : ", still being measured"})<br>` +
        `skill ${formatNumber(baseline.skill)}<br>H(Z|X) ${formatNumber(baseline.conditional_entropy)}` +
        " nats per token<extra></extra>",
    },
  ];
}

function trajectoryTraces(points, theme, compact) {
  if (points.length === 0) return [];
  return [
    pathTrace(points, theme),
    {
      type: "scatter",
      mode: "markers",
      x: points.map((point) => point.diversity),
      y: points.map((point) => point.dependence),
      customdata: points.map(hoverText),
      hovertemplate: "%{customdata}<extra></extra>",
      marker: {
        color: points.map((point) => point.step),
        colorscale: theme.scale.map((colour, i) => [i / (theme.scale.length - 1), colour]),
        size: compact ? 6 : 7,
        line: { color: theme.surface, width: 0.75 },
        showscale: true,
        colorbar: colourBar(theme, points),
      },
    },
  ];
}

function colourBar(theme, points) {
  const first = points[0].step;
  const last = points[points.length - 1].step;
  return {
    orientation: "h",
    thickness: 7,
    len: 0.5,
    x: 0.5,
    xanchor: "center",
    y: 0,
    yref: "container",
    yanchor: "bottom",
    ypad: 8,
    outlinewidth: 0,
    tickvals: first === last ? [last] : [first, (first + last) / 2, last],
    ticktext:
      first === last ? [`step ${formatStep(last)}`] : [`step ${formatStep(first)}`, "", formatStep(last)],
    tickfont: { color: theme.textFaint, size: theme.fontSize - 1 },
    ticks: "",
  };
}

/** The path through the noise: a short rolling mean, so that the way is seen and not the jitter. */
function pathTrace(points, theme) {
  return {
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
    line: { color: withAlpha(theme.text, 0.55), width: 1.5, shape: "spline", smoothing: 0.6 },
    hoverinfo: "skip",
  };
}

function newestTrace(point, theme) {
  const colour = theme.regimes[regimeInfo(point.regime).colour];
  return {
    type: "scatter",
    mode: "markers",
    x: [point.diversity],
    y: [point.dependence],
    cliponaxis: false,
    customdata: [hoverText(point)],
    hovertemplate: "%{customdata}<extra></extra>",
    marker: { size: 15, color: colour, line: { color: theme.surface, width: 2.5 } },
    error_x: errorBar(point.diversity, point.diversity_low, point.diversity_high, colour),
    error_y: errorBar(point.dependence, point.dependence_low, point.dependence_high, colour),
  };
}

/**
 * Names beside the newest points, on a patch of the ground so that they read over other points.
 * A narrow plot has room for the run's own step only; the legend names the others.
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
    .map((end, i) => ({ ...end, ...place(newest[i]), point: newest[i], text: shortName(end.text, NAME_LENGTH) }))
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

function errorBar(value, low, high, colour) {
  if (!isNumber(low) || !isNumber(high)) return { visible: false };
  return {
    type: "data",
    symmetric: false,
    array: [high - value],
    arrayminus: [value - low],
    color: withAlpha(colour, 0.55),
    thickness: 1.5,
    width: 0,
  };
}

/** One run in one colour: points, path, an emphasised end with its name. */
function runTraces(points, { name, colour, strong = false }, theme) {
  if (points.length === 0) return [];
  const last = points[points.length - 1];
  const label = plotlyText(name);
  return [
    {
      ...pathTrace(points, theme),
      line: {
        color: withAlpha(colour, strong ? 0.9 : 0.6),
        width: strong ? 2.5 : 2,
        shape: "spline",
        smoothing: 0.6,
      },
    },
    {
      type: "scatter",
      mode: "markers",
      x: points.map((point) => point.diversity),
      y: points.map((point) => point.dependence),
      customdata: points.map((point) => `<b>${label}</b><br>${hoverText(point)}`),
      hovertemplate: "%{customdata}<extra></extra>",
      marker: { color: withAlpha(colour, strong ? 0.42 : 0.28), size: strong ? 5.5 : 5 },
    },
    {
      ...newestTrace(last, theme),
      marker: { size: strong ? 13 : 10, color: colour, line: { color: theme.surface, width: 2 } },
      error_x: strong ? errorBar(last.diversity, last.diversity_low, last.diversity_high, colour) : undefined,
      error_y: strong
        ? errorBar(last.dependence, last.dependence_low, last.dependence_high, colour)
        : undefined,
      customdata: [`<b>${label}</b><br>${hoverText(last)}`],
    },
  ];
}

function hoverText(point) {
  const spread = (low, high) => {
    const text = formatInterval(low, high);
    return text === "" ? "" : `  (${text})`;
  };
  return (
    `<b>step ${formatStep(point.step)}</b>  ${plotlyText(regimeInfo(point.regime).name)}<br>` +
    `retrieval skill ${formatNumber(point.dependence)}${spread(point.dependence_low, point.dependence_high)}<br>` +
    `diversity ${formatNumber(point.diversity)}×${spread(point.diversity_low, point.diversity_high)}`
  );
}
