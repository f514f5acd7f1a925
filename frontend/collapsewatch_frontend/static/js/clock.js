/** When each step was logged: steps as times and times as steps. Pure. */

import { isNumber } from "./format.js";

/**
 * The clock of a run. `steps` grow, `times` are milliseconds since 1970; between two known steps time passes
 * evenly. A time that goes back, as after a change of a machine's clock, is held at the one before it.
 */
export class Clock {
  #steps = [];
  #times = [];

  /** @param {{steps: number[], times: number[]}} known */
  constructor({ steps, times }) {
    steps.forEach((step, i) => {
      if (!isNumber(step) || !isNumber(times[i])) return;
      const last = this.#times.length - 1;
      if (last >= 0 && step <= this.#steps[last]) return;
      this.#steps.push(step);
      this.#times.push(last >= 0 ? Math.max(this.#times[last], times[i]) : times[i]);
    });
  }

  /** Whether there are two moments, without which there is no axis. */
  get isKnown() {
    return this.#steps.length > 1 && this.#times[this.#times.length - 1] > this.#times[0];
  }

  /** Milliseconds since 1970 of a step; beyond the known ones at the pace of the nearest two. */
  timeOf(step) {
    return between(this.#steps, this.#times, step);
  }

  /** The step, with fractions, of a moment. */
  stepOf(time) {
    return between(this.#times, this.#steps, time);
  }
}

function between(from, to, value) {
  if (from.length === 0) return value;
  if (from.length === 1) return to[0];
  let low = 0;
  let high = from.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (from[middle] <= value) low = middle;
    else high = middle;
  }
  const span = from[high] - from[low];
  if (span === 0) return to[low];
  return to[low] + ((value - from[low]) / span) * (to[high] - to[low]);
}

/**
 * Chart libraries know no time zones: milliseconds that read as the local time when they are taken for UTC.
 */
export function asLocal(ms) {
  return ms - new Date(ms).getTimezoneOffset() * 60_000;
}

/** The other way, from a number or from a date as the chart library writes it (`2026-01-31 12:00:00.5`). */
export function fromLocal(value) {
  const ms = isNumber(value) ? value : Date.parse(`${completed(value).replace(" ", "T")}Z`);
  return ms + new Date(ms).getTimezoneOffset() * 60_000;
}

/** Whole hours and minutes are written short: `2026-01-31`, `2026-01-31 12:00`. */
function completed(text) {
  const date = text.replace("T", " ");
  if (/^\d+-\d+-\d+$/.test(date)) return `${date} 00:00:00`;
  return /^\d+-\d+-\d+ \d+:\d+$/.test(date) ? `${date}:00` : date;
}
