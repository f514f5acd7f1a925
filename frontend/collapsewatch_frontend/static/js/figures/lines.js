/** Figures over the steps of a run: lines with bands, reference lines, stacked shares. Pure. */

import { formatPercent, isNumber, plotlyText } from "../format.js";
import { bandSegments } from "../series.js";
import { alertMarks, axis, baseLayout, resumeMarks, stepAxis, withAlpha } from "./base.js";

/**
 * A figure over steps (`overSteps`), which a page may show smoothed or on other axes (figures/shown.js).
 *
 * One line per entry of `lines`: `{name, series, colour, dash?, band?, muted?}`.
 * `share` says that the values are parts of a whole, shown in percent.
 * `references` are constant levels: `{value, name, below?}`, the name above the line or below it.
 * `earlier` are lines of superseded attempts, drawn faint behind; `resumes` is where a later one began.
 */
export function lineFigure({
  lines,
  theme,
  alerts = [],
  references = [],
  earlier = [],
  resumes = [],
  ...options
}) {
  const { stepRange = null, yRange, compact = false, revision, stacked = false, share = false } = options;
  const marks = alertMarks(alerts, theme);
  const restarts = resumeMarks(resumes, theme, { compact });
  const data = stacked
    ? lines.map((line) => stackedTrace(line))
    : [
        ...earlier.map(earlierTrace),
        ...lines.flatMap((line) => bandTraces(line)),
        ...lines.map((line) => lineTrace(line, lines, share)),
      ];
  return {
    overSteps: true,
    data,
    layout: {
      ...baseLayout(theme, { revision, compact, margin: { t: 14 } }),
      hovermode: "x unified",
      xaxis: stepAxis(theme, { range: stepRange, compact }),
      yaxis: axis(theme, {
        ...yAxisRange(yRange),
        nticks: compact ? 4 : 5,
        fixedrange: true,
        ...(share ? { tickformat: ".0%", hoverformat: ".1~%" } : { hoverformat: ".3~f" }),
        separatethousands: true,
      }),
      shapes: [
        ...restarts.shapes,
        ...marks.shapes,
        ...references.map((reference) => referenceShape(reference, theme)),
      ],
      annotations: [
        ...restarts.annotations,
        ...marks.annotations,
        ...references.filter((r) => r.name !== "").map((r) => referenceLabel(r, theme)),
      ],
    },
  };
}

export function yAxisRange(range) {
  if (range === undefined) return { rangemode: "normal" };
  if (range === "from zero") return { rangemode: "tozero" };
  return { range };
}

function lineTrace({ name, series, colour, dash, muted = false }, lines, share) {
  const few = series.steps.length < 2 || (!muted && sparse(series, lines));
  return {
    type: "scatter",
    mode: few ? "lines+markers" : "lines",
    name: plotlyText(name),
    x: series.steps,
    y: series.values,
    connectgaps: false,
    line: { color: colour, width: muted ? 1.25 : 2, dash: dash ?? "solid" },
    marker: { color: colour, size: 4.5 },
    meta: { smooth: !muted, column: name, low: series.low, high: series.high },
    customdata: series.steps.map((_, i) => intervalText(series, i, share)),
    hovertemplate: "%{y}%{customdata}",
  };
}

/** What an attempt logged that a later one replayed: no interval and no marks, so that nobody takes it for the run. */
export function earlierTrace({ name, series, colour }) {
  return {
    type: "scatter",
    mode: "lines",
    name: plotlyText(name),
    x: series.steps,
    y: series.values,
    connectgaps: false,
    line: { color: withAlpha(colour, 0.6), width: 1.5, dash: "dot" },
    meta: { smooth: true, column: name },
    hovertemplate: "%{y}",
  };
}

/** A point measured now and then is shown as a point: a bare line would hide how rare it is. */
function sparse(series, lines) {
  const longest = Math.max(...lines.map((line) => line.series.steps.length));
  return longest <= 40 && series.steps.length <= 40;
}

function intervalText(series, i, share) {
  const low = series.low?.[i];
  const high = series.high?.[i];
  if (!isNumber(low) || !isNumber(high)) return "";
  const text = share ? formatPercent : (value) => value.toFixed(3);
  return `  (${text(low)} to ${text(high)})`;
}

/** The interval as a filled outline, one per unbroken run of steps. */
export function bandTraces({ series, colour, band }) {
  if (!band) return [];
  return bandSegments(series).map((segment) => ({
    type: "scatter",
    mode: "lines",
    x: [...segment.steps, ...[...segment.steps].reverse()],
    y: [...segment.high, ...[...segment.low].reverse()],
    fill: "toself",
    fillcolor: withAlpha(colour, 0.16),
    line: { width: 0 },
    hoverinfo: "skip",
    showlegend: false,
  }));
}

function stackedTrace({ name, series, colour }) {
  return {
    type: "scatter",
    mode: "lines",
    name: plotlyText(name),
    x: series.steps,
    y: series.values,
    stackgroup: "share",
    meta: { smooth: true, column: name },
    line: { width: 0.5, color: colour },
    fillcolor: withAlpha(colour, 0.6),
    hovertemplate: "%{y:.0%}",
  };
}

export function referenceShape({ value }, theme) {
  return {
    type: "line",
    xref: "paper",
    yref: "y",
    x0: 0,
    x1: 1,
    y0: value,
    y1: value,
    line: { color: theme.textFaint, width: 1, dash: "dash" },
  };
}

export function referenceLabel({ value, name, below = false }, theme) {
  return {
    xref: "paper",
    yref: "y",
    x: 0,
    xanchor: "left",
    y: value,
    yanchor: below ? "top" : "bottom",
    text: plotlyText(name),
    showarrow: false,
    bgcolor: withAlpha(theme.surface, 0.7),
    borderpad: 1,
    font: { color: theme.textFaint, size: theme.fontSize - 1 },
  };
}
