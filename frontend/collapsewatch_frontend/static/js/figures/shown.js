/** A figure over the steps, as a page's charts are to be shown: smoothed, on other axes, in part. Pure. */

import { asLocal } from "../clock.js";
import { formatStep, isNumber, plotlyText, truncate } from "../format.js";
import { smoothed } from "../smoothing.js";
import { stepTicks, withAlpha } from "./base.js";

/**
 * The figure in the view of its page. Only figures over steps (`overSteps`) are touched; a trace whose `meta`
 * has `smooth` is smoothed, and its measured values stay behind it, faint. Where zero is a place of its own
 * (`isLinear`), and where shares are stacked, the scale stays as it is.
 *
 * @param {any} figure `{data, layout, overSteps?}`
 * @param {import("../chart_view.js").ChartView} view
 */
export function shownFigure(figure, view, { compact = false } = {}) {
  if (figure.overSteps !== true) return figure;
  const stacked = figure.data.some((trace) => trace.stackgroup !== undefined);
  const log = view.log && !stacked && figure.isLinear !== true;
  const lines = figure.data.flatMap((trace) => smoothedTraces(trace, view.smoothing));
  const data = [...lines, ...checkpointTraces(view.checkpoints, figure.layout)];
  const layout = {
    ...figure.layout,
    ...(data.length > lines.length ? { yaxis2: FOOT_AXIS } : {}),
    xaxis: { ...figure.layout.xaxis, uirevision: `${view.axis} ${JSON.stringify(view.range)}` },
  };
  if (view.range !== null) {
    const { tickvals: _, ticktext: __, nticks: ___, ...axis } = layout.xaxis;
    layout.xaxis = { ...axis, range: view.range, ...(figure.ticksFor ?? stepTicks)(view.range, compact) };
  }
  const shown = { ...figure, data, layout };
  const scaled = log ? onLogScale(shown) : shown;
  const visible = view.range === null ? scaled : fittedToRange(scaled, view.range, log);
  return view.onTime ? onTimeAxis(visible, view.clock, compact) : visible;
}

/** An axis of its own, so that the marks stay at the foot whatever the values are. */
const FOOT_AXIS = { overlaying: "y", range: [0, 1], visible: false, fixedrange: true };

/** Where another policy begins to write: small marks at the foot, named on hover. */
function checkpointTraces(checkpoints, layout) {
  if (checkpoints.length === 0) return [];
  return [
    {
      type: "scatter",
      mode: "markers",
      name: "checkpoint",
      yaxis: "y2",
      x: checkpoints.map(({ step }) => step),
      y: checkpoints.map(() => 0),
      text: checkpoints.map(
        ({ step, policy_version: version }) =>
          `checkpoint ${plotlyText(truncate(version, 40))} from step ${formatStep(step)}`,
      ),
      hovertemplate: "%{text}<extra></extra>",
      cliponaxis: false,
      marker: { symbol: "triangle-up", size: 8, color: layout.font?.color, opacity: 0.75 },
    },
  ];
}

function smoothedTraces(trace, weight) {
  if (!(weight > 0) || trace.meta?.smooth !== true) return [trace];
  const line = {
    ...trace,
    mode: "lines",
    y: smoothed(trace.x, trace.y, weight),
    meta: { ...trace.meta, measured: trace.y },
    hovertemplate: trace.hovertemplate?.replace("%{customdata}", "  measured %{customdata}"),
    customdata: trace.y.map((value, i) => `${spoken(value)}${trace.customdata?.[i] ?? ""}`),
  };
  if (trace.stackgroup !== undefined) return [{ ...line, customdata: undefined }];
  const measured = {
    ...trace,
    mode: "lines",
    hoverinfo: "skip",
    hovertemplate: undefined,
    customdata: undefined,
    showlegend: false,
    meta: undefined,
    line: { ...trace.line, color: withAlpha(trace.line.color, 0.28), width: 1 },
  };
  return [measured, line];
}

const spoken = (value) => (isNumber(value) ? value.toPrecision(3) : "–");

/** Ones, twos and fives: more of them would not fit a small figure. */
const LOG_TICKS = "D2";

/** Values of 0 or less have no place on a logarithmic axis: they are gaps, and the figure says how many. */
function onLogScale(figure) {
  const numLeftOut = figure.data
    .filter((trace) => trace.meta?.column !== undefined)
    .reduce((count, { y }) => count + y.filter((value) => isNumber(value) && value <= 0).length, 0);
  const positive = (value) => (isNumber(value) && value <= 0 ? null : value);
  const data = figure.data.map((trace) => {
    if (trace.yaxis === "y2") return trace;
    return trace.fill === "toself" ? clippedBand(trace) : { ...trace, y: trace.y.map(positive) };
  });
  const { range: _, tickvals: __, rangemode: ___, tickformat, ...yaxis } = figure.layout.yaxis;
  const isShare = tickformat?.endsWith("%");
  return {
    ...figure,
    data,
    numLeftOut,
    layout: {
      ...figure.layout,
      yaxis: { ...yaxis, type: "log", dtick: LOG_TICKS, ...(isShare ? { tickformat: ".1~%" } : {}) },
      shapes: (figure.layout.shapes ?? []).filter(isPositive),
      annotations: (figure.layout.annotations ?? []).filter(isPositive).map(onLogPlace),
    },
  };
}

/** A band may reach down to a tenth of the smallest value above zero, not to minus infinity. */
function clippedBand(trace) {
  const above = trace.y.filter((value) => value > 0);
  const floor = above.length === 0 ? 1 : Math.min(...above);
  return { ...trace, y: trace.y.map((value) => (value > 0 ? value : floor)) };
}

const onValues = (item) => item.yref === "y" || item.yref === undefined;

/** What lies at or below zero on the value axis cannot be shown; a field that only reaches there can. */
function isPositive(item) {
  if (!onValues(item)) return true;
  const places = [item.y, item.y0, item.y1].filter(isNumber);
  return places.every((place) => place > 0);
}

/** Plotly wants the place of a text on a logarithmic axis as a power of ten. */
const onLogPlace = (item) => (onValues(item) && isNumber(item.y) ? { ...item, y: Math.log10(item.y) } : item);

/** The value axis fits what is in view, where the figure has no fixed one. */
function fittedToRange(figure, [from, to], log) {
  const { yaxis } = figure.layout;
  if (yaxis.range !== undefined) return figure;
  const values = figure.data
    .filter((trace) => trace.stackgroup === undefined && trace.yaxis !== "y2")
    .flatMap(({ x, y }) => y.filter((value, i) => isNumber(value) && x[i] >= from && x[i] <= to));
  if (values.length === 0) return figure;
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (yaxis.rangemode === "tozero" && !log) low = Math.min(0, low);
  const [bottom, top] = log ? [Math.log10(low), Math.log10(high)] : [low, high];
  const pad = (top - bottom || Math.abs(top) || 1) * 0.06;
  const zeroed = yaxis.rangemode === "tozero" && !log && low === 0;
  return {
    ...figure,
    layout: { ...figure.layout, yaxis: { ...yaxis, range: [zeroed ? 0 : bottom - pad, top + pad] } },
  };
}

/** Steps become local times; the hover text still tells the step. */
function onTimeAxis(figure, clock, compact) {
  const at = (step) => (isNumber(step) ? asLocal(clock.timeOf(step)) : step);
  const { tickvals: _, ticktext: __, tickprefix: ___, showtickprefix: ____, ...axis } = figure.layout.xaxis;
  const { title, ...rest } = axis;
  const named = figure.data.findIndex((trace) => trace.hovertemplate !== undefined);
  const moved = (item) =>
    item.xref === "paper"
      ? item
      : Object.fromEntries(
          Object.entries(item).map(([key, value]) => [
            key,
            ["x", "x0", "x1"].includes(key) ? at(value) : value,
          ]),
        );
  return {
    ...figure,
    data: figure.data.map((trace, i) => ({
      ...trace,
      x: trace.x.map(at),
      ...(i === named && figure.layout.hovermode === "x unified" ? withStep(trace) : {}),
    })),
    layout: {
      ...figure.layout,
      xaxis: {
        ...rest,
        ...(title === undefined ? {} : { title: { ...title, text: "time" } }),
        type: "date",
        range: axis.range?.map(at),
        nticks: compact ? 4 : 7,
        tickformat: undefined,
        tickformatstops: TIME_TICKS,
        hoverformat: "%b %-d, %H:%M:%S",
      },
      shapes: (figure.layout.shapes ?? []).map(moved),
      annotations: (figure.layout.annotations ?? []).map(moved),
    },
  };
}

const TIME_TICKS = [
  { dtickrange: [null, 1_000], value: "%H:%M:%S.%L" },
  { dtickrange: [1_000, 60_000], value: "%H:%M:%S" },
  { dtickrange: [60_000, 86_400_000], value: "%H:%M" },
  { dtickrange: [86_400_000, null], value: "%b %-d" },
];

function withStep(trace) {
  return {
    text: trace.x.map((step) => `step ${formatStep(Math.round(step))}`),
    hovertemplate: `${trace.hovertemplate}  %{text}`,
  };
}
