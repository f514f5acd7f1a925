/** Input dependence over the steps: the quadrant's vertical axis alone, where diversity is unknown. Pure. */

import { formatInterval, formatNumber, formatStep, isNumber, plotlyText } from "../format.js";
import { FLOOR_THRESHOLDS, regimeInfo } from "../regimes.js";
import { branchPoints } from "../series.js";
import { alertMarks, axis, baseLayout, resumeMarks, stepAxis, withAlpha } from "./base.js";
import { bandTraces, earlierTrace } from "./lines.js";

const scored = (points) => points.filter((point) => isNumber(point.dependence));

/**
 * One run: skill with its interval over the steps, between the two thresholds of dependence.
 * `ghosts` (`{name, points, colour}`) are other runs drawn behind it, `earlier` (`{number, points}`) what
 * later attempts superseded, `resumes` where they began.
 */
export function dependenceFigure({
  trajectory,
  alerts = [],
  ghosts = [],
  earlier = [],
  resumes = [],
  theme,
  compact = false,
  revision,
}) {
  const own = scored(trajectory.points);
  const points = [...own, ...[...ghosts, ...earlier].flatMap((other) => scored(other.points))];
  const [alertLines, restarts] = [alertMarks(alerts, theme), resumeMarks(resumes, theme, { compact })];
  const marks = {
    shapes: [...restarts.shapes, ...alertLines.shapes],
    annotations: [...restarts.annotations, ...alertLines.annotations],
  };
  return {
    overSteps: true,
    isLinear: true,
    data: [
      ...earlier.map((attempt) => earlierSkill(own, attempt, theme)),
      ...ghosts.flatMap((ghost) => runTraces(scored(ghost.points), { ...ghost, theme })),
      ...runTraces(own, { colour: theme.series[0], theme }),
    ],
    layout: dependenceLayout({ points, thresholds: trajectory.thresholds, marks, theme, compact, revision }),
  };
}

/** Several runs, each in its own colour; thresholds are those of the first. */
export function dependenceOverlay({ runs, theme, compact = false, revision }) {
  const thresholds = runs[0]?.trajectory.thresholds ?? null;
  const marks = { shapes: [], annotations: [] };
  return {
    overSteps: true,
    isLinear: true,
    data: runs.flatMap(({ name, colour, trajectory }) =>
      runTraces(scored(trajectory.points), { colour, theme, name }),
    ),
    layout: dependenceLayout({
      points: runs.flatMap(({ trajectory }) => scored(trajectory.points)),
      thresholds,
      marks,
      theme,
      compact,
      revision,
    }),
  };
}

function dependenceLayout({ points, thresholds: frozen, marks, theme, compact, revision }) {
  const thresholds = frozen ?? FLOOR_THRESHOLDS;
  const range = [Math.min(-0.08, ...points.map((point) => point.dependence - 0.03)), 1.13];
  const { diverse, template } = theme.regimes;
  return {
    ...baseLayout(theme, { revision, compact, margin: { l: 50, t: 16, b: 48 } }),
    hovermode: "closest",
    xaxis: {
      ...stepAxis(theme, { range: stepsOf(points), compact }),
      title: axis(theme, { title: "step" }).title,
    },
    yaxis: axis(theme, {
      title: compact ? "retrieval skill" : "input dependence: retrieval skill (0 chance, 1 perfect)",
      range,
      tickvals: [0, 0.25, 0.5, 0.75, 1],
      fixedrange: true,
      showgrid: false,
    }),
    shapes: [
      zone(thresholds.high_dependence, range[1], diverse, theme),
      zone(range[0], thresholds.low_dependence, template, theme),
      ...marks.shapes,
    ],
    annotations: [
      zoneLabel("depends on the prompt", range[1], "top", diverse, theme),
      zoneLabel("no longer depends on the prompt", range[0], "bottom", template, theme),
      ...marks.annotations,
    ],
  };
}

function earlierSkill(own, { number, points }, theme) {
  const path = branchPoints(own, scored(points));
  const series = { steps: path.map((point) => point.step), values: path.map((point) => point.dependence) };
  return {
    ...earlierTrace({ name: `attempt ${number}`, series, colour: theme.series[0] }),
    hovertemplate: `attempt ${number}: %{y:.3f}<extra></extra>`,
  };
}

/**
 * @param {any[]} points
 * @param {Record<string, any>} run
 */
function runTraces(points, { colour, theme, name }) {
  const series = {
    steps: points.map((point) => point.step),
    low: points.map((point) => point.dependence_low),
    high: points.map((point) => point.dependence_high),
  };
  return [
    ...bandTraces({ series, colour, band: true }),
    skillTrace(points, colour, name),
    ...newestTrace(points, { theme, name, colour: name === undefined ? undefined : colour }),
  ];
}

/** First and last step of points that may belong to several runs. */
function stepsOf(points) {
  if (points.length === 0) return null;
  const steps = points.map((point) => point.step);
  return [Math.min(...steps), Math.max(...steps)];
}

function zone(y0, y1, colour, theme) {
  return {
    type: "rect",
    layer: "below",
    xref: "paper",
    x0: 0,
    x1: 1,
    y0,
    y1,
    line: { width: 0 },
    fillcolor: withAlpha(colour, theme.dark ? 0.16 : 0.1),
  };
}

function zoneLabel(text, y, anchor, colour, theme) {
  return {
    xref: "paper",
    x: 1,
    xanchor: "right",
    xshift: -6,
    y,
    yanchor: anchor,
    yshift: anchor === "top" ? -4 : 4,
    text: `<b>${text}</b>`,
    showarrow: false,
    font: { color: colour, size: theme.fontSize },
  };
}

function skillTrace(points, colour, name) {
  return {
    type: "scatter",
    mode: points.length <= 40 ? "lines+markers" : "lines",
    x: points.map((point) => point.step),
    y: points.map((point) => point.dependence),
    line: { color: colour, width: 2 },
    marker: { color: colour, size: 5 },
    meta: {
      column: name === undefined ? "retrieval skill" : `retrieval skill, ${name}`,
      low: points.map((point) => point.dependence_low),
      high: points.map((point) => point.dependence_high),
    },
    customdata: points.map((point) => hoverText(point, name)),
    hovertemplate: "%{customdata}<extra></extra>",
  };
}

function newestTrace(points, { theme, name, colour }) {
  if (points.length === 0) return [];
  const last = points[points.length - 1];
  return [
    {
      type: "scatter",
      mode: "markers",
      x: [last.step],
      y: [last.dependence],
      cliponaxis: false,
      customdata: [hoverText(last, name)],
      hovertemplate: "%{customdata}<extra></extra>",
      marker: {
        size: 13,
        color: colour ?? theme.regimes[regimeInfo(last.regime).colour],
        line: { color: theme.surface, width: 2.5 },
      },
    },
  ];
}

function hoverText(point, name) {
  const whose = name === undefined ? "" : `<b>${plotlyText(name)}</b><br>`;
  const interval = formatInterval(point.dependence_low, point.dependence_high);
  return (
    `${whose}<b>step ${formatStep(point.step)}</b>  ${plotlyText(regimeInfo(point.regime).name)}<br>` +
    `retrieval skill ${formatNumber(point.dependence)}${interval === "" ? "" : `  (${interval})`}`
  );
}
