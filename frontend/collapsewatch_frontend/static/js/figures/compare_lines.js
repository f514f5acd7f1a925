/** One metric of several runs over one axis, and means over groups of them. Pure. */

import { elapsedTicks, formatTokens, placeWords } from "../elapsed.js";
import { formatPercent, isNumber, plotlyText } from "../format.js";
import { axis, baseLayout, stepAxis, withAlpha } from "./base.js";
import { bandTraces, referenceLabel, referenceShape, yAxisRange } from "./lines.js";

/** More intervals than these hide the lines that they are about. */
const MOST_BANDS = 4;
/** A box with more lines covers what it tells of. */
const MOST_IN_BOX = 6;
const FAINT = 0.16;

/**
 * `lines`: `{name, colour, dash, series, isOn?, isFaint?}`, where a series is the answer of the API; a faint one
 * belongs to a group. `means`: `{name, colour, dash, series, size}`, the mean of a group of `size` runs.
 * `band`: "interval", "range" or "none". `axisName`: "step", "time" or "tokens". `emphasis` is the name of the
 * one line that stands out; null for none.
 */
export function compareFigure({ lines, means = [], references = [], theme, ...options }) {
  const { axisName = "step", band = "interval", emphasis = null, range = null, yRange } = options;
  const { compact = false, revision, share = false } = options;
  const shown = lines.filter((line) => line.series !== undefined);
  const all = shown.length + means.length;
  const inBox = axisName === "step" && all <= MOST_IN_BOX && means.length === 0;
  const drawn = { axisName, share, inBox, emphasis, few: means.length === 0 && shown.length <= MOST_BANDS };
  return {
    overSteps: true,
    ...(axisName === "step" ? {} : { ticksFor: (part) => placeTicks(axisName, part, compact) }),
    table: () => compareTable(shown, means, axisName),
    data: [
      ...shown.flatMap((line) => (drawn.few && band !== "none" ? intervalTraces(line) : [])),
      ...shown.map((line) => runTrace(line, drawn)),
      ...means.flatMap((mean) => meanTraces(mean, { ...drawn, band })),
    ],
    layout: {
      ...baseLayout(theme, { revision, compact, margin: { t: 14 } }),
      hovermode: inBox ? "x unified" : "closest",
      hoverdistance: 30,
      xaxis: placeAxis(theme, { axisName, range, compact }),
      yaxis: axis(theme, {
        ...yAxisRange(yRange),
        nticks: compact ? 4 : 5,
        fixedrange: true,
        ...(share ? { tickformat: ".0%", hoverformat: ".1~%" } : { hoverformat: ".3~f" }),
        separatethousands: true,
      }),
      shapes: references.map((reference) => referenceShape(reference, theme)),
      annotations: references.map((reference) => referenceLabel(reference, theme)),
    },
  };
}

const placesOf = (series) => series.places ?? series.steps;

function intervalTraces({ series, colour }) {
  if (series.low === null) return [];
  const { low, high } = series;
  return bandTraces({ series: { steps: placesOf(series), low, high }, colour, band: true });
}

function runTrace(
  { name, colour, dash, series, isFaint = false },
  { axisName, share, inBox, emphasis, few },
) {
  const places = placesOf(series);
  const isOut = emphasis !== null && emphasis !== name;
  const opacity = isFaint ? 0.35 : isOut ? FAINT : 1;
  const lone = places.length < 2 || (few && places.length <= 40);
  const strength = emphasis === name ? 3 : few ? 2 : 1.6;
  return {
    type: "scatter",
    mode: lone ? "lines+markers" : "lines",
    name: plotlyText(name),
    x: places,
    y: series.values,
    connectgaps: false,
    line: { color: withAlpha(colour, opacity), width: isFaint ? 1 : strength, dash },
    marker: { color: withAlpha(colour, opacity), size: 4.5 },
    meta: { smooth: true, column: name },
    customdata: places.map((_, i) => intervalText(series, i, share)),
    ...(inBox
      ? { hovertemplate: "%{y}%{customdata}" }
      : {
          text: places.map((place, i) => placeText(axisName, place, series.steps[i])),
          hovertemplate: `<b>${plotlyText(name)}</b><br>%{text}<br>%{y}%{customdata}<extra></extra>`,
        }),
  };
}

const placeText = (axisName, place, step) =>
  axisName === "step"
    ? placeWords("step", step)
    : `${placeWords(axisName, place)}, ${placeWords("step", step)}`;

function intervalText({ low, high }, i, share) {
  if (!isNumber(low?.[i]) || !isNumber(high?.[i])) return "";
  const text = share ? formatPercent : (value) => value.toFixed(3);
  return `  (${text(low[i])} to ${text(high[i])})`;
}

/**
 * The mean of a group: solid where all its runs have a value, dotted where some ended, so that a mean over
 * those that were left is not taken for one over all.
 */
function meanTraces({ name, colour, series, size }, { axisName, share, band, emphasis }) {
  const isOut = emphasis !== null && emphasis !== name;
  const whole = series.num_runs.map((count) => count === size);
  const common = {
    type: "scatter",
    mode: series.places.length < 2 ? "lines+markers" : "lines",
    name: plotlyText(name),
    x: series.places,
    connectgaps: false,
    marker: { color: colour, size: 6 },
  };
  const line = { color: withAlpha(colour, isOut ? FAINT : 1), width: emphasis === name ? 3.5 : 2.5 };
  return [
    ...groupBand(series, colour, isOut ? "none" : band),
    ...(whole.every(Boolean)
      ? []
      : [{ ...common, y: series.mean, line: { ...line, width: 1.5, dash: "dot" }, hoverinfo: "skip" }]),
    {
      ...common,
      y: series.mean.map((value, i) => (whole[i] ? value : null)),
      line,
      hoverinfo: "skip",
    },
    {
      ...common,
      mode: "lines",
      y: series.mean,
      line: { color: "rgba(0, 0, 0, 0)", width: line.width },
      meta: { smooth: false, column: name },
      text: series.places.map((place) => placeWords(axisName, place)),
      customdata: series.places.map((_, i) => meanText(series, i, share)),
      hovertemplate: `<b>${plotlyText(name)}</b><br>%{text}<br>mean %{y}%{customdata}<extra></extra>`,
    },
  ];
}

function groupBand({ places, low, high, lowest, highest }, colour, band) {
  if (band === "none") return [];
  const limits = band === "range" ? { low: lowest, high: highest } : { low, high };
  return bandTraces({ series: { steps: places, ...limits }, colour, band: true });
}

function meanText(series, i, share) {
  const count = series.num_runs[i];
  return `${intervalText(series, i, share)} of ${count} ${count === 1 ? "run" : "runs"}`;
}

function placeAxis(theme, { axisName, range, compact }) {
  if (axisName === "step") return stepAxis(theme, { range, compact });
  const padded = range === null ? undefined : [range[0] - pad(range), range[1] + pad(range)];
  return axis(theme, {
    range: padded,
    ...(range === null ? {} : placeTicks(axisName, range, compact)),
    showgrid: false,
    showline: true,
    fixedrange: compact,
  });
}

const pad = ([low, high]) => Math.max((high - low) * 0.02, 0.5);

function placeTicks(axisName, range, compact) {
  if (axisName === "time") return elapsedTicks(range, compact ? 4 : 7);
  const [low, high] = range;
  const raw = Math.max(high - low, 1) / (compact ? 3 : 6);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((each) => each * power >= raw);
  const tickvals = [];
  for (let at = Math.ceil(low / step); at * step <= high; at += 1) tickvals.push(at * step);
  return {
    tickvals,
    ticktext: tickvals.map((place, i) => `${formatTokens(place)}${i === 0 ? " tokens" : ""}`),
  };
}

const PLACE_COLUMNS = { step: "step", time: "seconds", tokens: "tokens" };

/** One row for each value of each run, and of each mean: runs on other axes have no places in common. */
function compareTable(lines, means, axisName) {
  const place = PLACE_COLUMNS[axisName];
  const ofRuns = lines
    .filter((line) => !line.isFaint || means.length === 0)
    .flatMap(({ name, series }) =>
      series.steps.map((step, i) => [
        name,
        step,
        ...(series.places === null ? [] : [series.places[i]]),
        series.values[i],
        series.low?.[i] ?? null,
        series.high?.[i] ?? null,
      ]),
    );
  if (means.length === 0) {
    const columns = ["run", "step", ...(axisName === "step" ? [] : [place]), "value", "low", "high"];
    return { columns, rows: ofRuns };
  }
  return {
    columns: ["group", place, "mean", "low", "high", "lowest", "highest", "runs"],
    rows: means.flatMap(({ name, series }) =>
      series.places.map((at, i) => [
        name,
        at,
        series.mean[i],
        series.low[i],
        series.high[i],
        series.lowest[i],
        series.highest[i],
        series.num_runs[i],
      ]),
    ),
  };
}
