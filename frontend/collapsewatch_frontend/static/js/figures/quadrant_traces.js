/** What is drawn in the quadrant: paths, points, newest step, baseline. Pure. */

import { formatInterval, formatNumber, formatStep, isNumber, plotlyText } from "../format.js";
import { regimeInfo } from "../regimes.js";
import { branchPoints, rollingMean } from "../series.js";
import { severityInfo } from "../alerts.js";
import { alertHover, severitySign, withAlpha } from "./base.js";

const TREND_WINDOW = 9;

/** Whether a point has a place in the plane: both coordinates known. */
export function hasPlace(point) {
  return isNumber(point.diversity) && isNumber(point.dependence);
}

export const placedPoints = (points) => points.filter(hasPlace);

/** Where the baseline stands in the plane: at its own diversity, 1, and its skill. */
export function baselineMarks(baseline) {
  return baseline && isNumber(baseline.skill) ? [{ diversity: 1, dependence: baseline.skill }] : [];
}

export function baselineTrace(baseline, theme) {
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

const NO_ALERTS = new Map();

/** `whole` is the way with what came later: it has one scale of colours, whatever part is shown. */
export function trajectoryTraces(points, { theme, compact, opened = NO_ALERTS, whole = points }) {
  if (points.length === 0) return [];
  return [
    pathTrace(points, theme),
    {
      type: "scatter",
      mode: "markers",
      x: points.map((point) => point.diversity),
      y: points.map((point) => point.dependence),
      ids: points.map((point) => nameOf(point, opened)),
      customdata: points.map((point) => openedText(point, opened) + hoverText(point)),
      hovertemplate: "%{customdata}<extra></extra>",
      marker: {
        color: points.map((point) => point.step),
        cmin: whole[0].step,
        cmax: Math.max(whole[0].step + 1, whole[whole.length - 1].step),
        colorscale: theme.scale.map((colour, i) => [i / (theme.scale.length - 1), colour]),
        size: compact ? 6 : 7,
        line: { color: theme.surface, width: 0.75 },
        showscale: true,
        colorbar: colourBar(theme, whole),
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

/**
 * The alerts that opened at each step, the gravest first. Those of a replayed step are left out: the point
 * that stands there now is not the one that they were about.
 */
export function alertsByStep(alerts) {
  const rank = (alert) => severityInfo(alert.severity).rank;
  const found = new Map();
  for (const alert of alerts.filter((each) => each.superseded !== true)) {
    found.set(alert.opened_step, [...(found.get(alert.opened_step) ?? []), alert]);
  }
  for (const opened of found.values()) opened.sort((a, b) => rank(a) - rank(b));
  return found;
}

/** The signs of alerts around the points where they opened; the points themselves tell of them. */
export function alertTraces(points, opened, theme) {
  const placed = points
    .filter(({ step }) => opened.has(step))
    .map((point) => ({ point, alert: opened.get(point.step)[0] }));
  if (placed.length === 0) return [];
  const colours = placed.map(({ alert }) => theme.severities[alert.severity] ?? theme.severities.info);
  return [
    {
      type: "scatter",
      mode: "markers",
      x: placed.map(({ point }) => point.diversity),
      y: placed.map(({ point }) => point.dependence),
      hoverinfo: "skip",
      marker: {
        symbol: placed.map(({ alert }) => `${severitySign(alert.severity).symbol}-open`),
        color: colours,
        size: 15,
        line: { color: colours, width: 2 },
      },
    },
  ];
}

/** A point's name: the id of the alert that opened there, by which a click finds it; else one of its own. */
const nameOf = ({ step }, opened) => String(opened.get(step)?.[0].alert_id ?? `step-${step}`);

function openedText({ step }, opened) {
  return (opened.get(step) ?? []).map((alert) => `<b>${alertHover(alert)}</b><br>`).join("");
}

/** The way that no later attempt went again: a dotted path and its steps as faint points. */
export function earlierTrail(own, { number, points }, theme) {
  const path = branchPoints(own, placedPoints(points));
  if (path.length === 0) return [];
  const trail = pathTrace(path, theme);
  return [
    { ...trail, line: { ...trail.line, color: withAlpha(theme.textFaint, 0.8), dash: "dot" } },
    {
      type: "scatter",
      mode: "markers",
      x: path.map((point) => point.diversity),
      y: path.map((point) => point.dependence),
      customdata: path.map((point) => `<b>attempt ${number}, superseded</b><br>${hoverText(point)}`),
      hovertemplate: "%{customdata}<extra></extra>",
      marker: { color: withAlpha(theme.textFaint, 0.4), size: 4 },
    },
  ];
}

export function newestTrace(point, theme, opened = NO_ALERTS) {
  const colour = theme.regimes[regimeInfo(point.regime).colour];
  return {
    type: "scatter",
    mode: "markers",
    x: [point.diversity],
    y: [point.dependence],
    cliponaxis: false,
    ids: [nameOf(point, opened)],
    customdata: [openedText(point, opened) + hoverText(point)],
    hovertemplate: "%{customdata}<extra></extra>",
    marker: { size: 15, color: colour, line: { color: theme.surface, width: 2.5 } },
  };
}

/** What came after the step that is looked at: there, and out of the way. */
export function laterTrace(points, theme) {
  if (points.length === 0) return [];
  return [
    {
      type: "scatter",
      mode: "markers",
      x: points.map((point) => point.diversity),
      y: points.map((point) => point.dependence),
      ids: points.map((point) => `step-${point.step}`),
      customdata: points.map(hoverText),
      hovertemplate: "%{customdata}<extra></extra>",
      marker: { color: withAlpha(theme.textFaint, 0.22), size: 5 },
    },
  ];
}

/** A ring around the place of another run at the same step, or at its last one before. */
export function sameStepTrace(points, step, { name, colour }, theme) {
  const point = points.filter((each) => step !== null && each.step <= step).pop();
  if (point === undefined || point === points[points.length - 1]) return [];
  return [
    {
      type: "scatter",
      mode: "markers",
      x: [point.diversity],
      y: [point.dependence],
      customdata: [`<b>${plotlyText(name)}</b><br>${hoverText(point)}`],
      hovertemplate: "%{customdata}<extra></extra>",
      marker: { symbol: "circle-open", size: 13, color: colour, line: { color: colour, width: 2.5 } },
    },
  ];
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
export function runTraces(points, { name, colour, strong = false }, theme) {
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
