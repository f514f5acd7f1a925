/** Spans of time and amounts of tokens on an axis. Pure. */

import { isNumber } from "./format.js";

/** Made once: to make one for each of thousands of points takes seconds. */
const STEPS_WITH_TENTHS = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });

const UNITS = [
  { seconds: 86_400, name: "d" },
  { seconds: 3_600, name: "h" },
  { seconds: 60, name: "min" },
  { seconds: 1, name: "s" },
];
/** Distances between ticks, in seconds, that people count in. */
const STEPS = [
  ...[1, 2, 5, 10, 15, 30],
  ...[60, 120, 300, 600, 900, 1_800],
  ...[3_600, 7_200, 10_800, 21_600, 43_200],
  ...[86_400, 172_800, 432_000, 864_000, 2_592_000, 8_640_000],
];

/** `1 d 6 h`, `2 h 30 min`, `40 s`, `2.5 s`: a span in its two largest units. */
export function formatElapsed(seconds) {
  if (!isNumber(seconds)) return "–";
  const sign = seconds < 0 ? "−" : "";
  const size = Math.abs(seconds);
  if (size < 60) return `${sign}${Number.isInteger(size) ? size : size.toFixed(1)} s`;
  const whole = Math.round(size);
  const first = UNITS.findIndex((unit) => whole >= unit.seconds);
  const [large, small] = [UNITS[first], UNITS[first + 1]];
  const count = Math.floor(whole / large.seconds);
  const rest = small === undefined ? 0 : Math.floor((whole % large.seconds) / small.seconds);
  return `${sign}${count} ${large.name}${rest === 0 ? "" : ` ${rest} ${small.name}`}`;
}

/** Ticks of an axis of seconds: `{tickvals, ticktext}`, at most `most` of them, at round places. */
export function elapsedTicks([low, high], most) {
  const span = Math.max(high - low, 1e-9);
  const step = STEPS.find((each) => span / each <= most) ?? Math.ceil(span / most / 8_640_000) * 8_640_000;
  const tickvals = [];
  for (let at = Math.ceil(low / step); at * step <= high; at += 1) tickvals.push(at * step);
  return { tickvals, ticktext: tickvals.map(formatElapsed) };
}

/** `950`, `12.3k`, `4.1M`, `2B` tokens. */
export function formatTokens(count) {
  if (!isNumber(count)) return "–";
  const units = ["", "k", "M", "B", "T"];
  let value = count;
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const text = unit === 0 ? String(Math.round(value)) : value.toFixed(Math.abs(value) >= 99.5 ? 0 : 1);
  return `${text.replace(/\.0$/, "")}${units[unit]}`;
}

/** A place on one of the axes in words: `step 1,204`, `2 h 30 min`, `4.1M tokens`. */
export function placeWords(axis, place) {
  if (axis === "time") return formatElapsed(place);
  if (axis === "tokens") return `${formatTokens(place)} tokens`;
  return `step ${STEPS_WITH_TENTHS.format(place)}`;
}
