/** How the charts of a page are shown, all alike: smoothing, scale, axis, stretch of steps, cursor. Pure. */

import { isNumber } from "./format.js";
import { MOST_SMOOTHING } from "./smoothing.js";

/** @typedef {"style" | "range" | "cursor" | "selected"} Change what listeners are told of */

/** @typedef {{step: number, policy_version: string}} Checkpoint the first step that a policy wrote */

/** What the charts of a page share. Each of them listens, draws, and says what the pointer did on it. */
export class ChartView {
  #listeners = new Set();
  smoothing = 0;
  /** Whether the values have a logarithmic axis. */
  log = false;
  /** @type {"step" | "time"} */
  axis = "step";
  /** @type {[number, number] | null} First and last step that are shown; null for all. */
  range = null;
  /** The step under the pointer and the chart that it is over. */
  cursor = null;
  /** A step that a person chose, marked in every chart. */
  selected = null;
  /** @type {import("./clock.js").Clock | null} */
  clock = null;
  /** Where another policy begins to write: marks at the foot of every chart. @type {Checkpoint[]} */
  checkpoints = [];

  /** @param {Partial<Pick<ChartView, "smoothing" | "log" | "axis" | "range">>} choice */
  constructor(choice = {}) {
    Object.assign(this, choice);
  }

  /** Calls back with what changed and with the view; returns how to stop it. */
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #tell(change) {
    for (const listener of this.#listeners) listener(change, this);
  }

  /** Takes a new smoothing, scale or axis. */
  setStyle(change) {
    const before = JSON.stringify([this.smoothing, this.log, this.axis]);
    Object.assign(this, change);
    if (JSON.stringify([this.smoothing, this.log, this.axis]) !== before) this.#tell("style");
  }

  /** Shows these steps in every chart; null for all of them. */
  zoom(range) {
    const next = range === null ? null : wholeRange(range);
    if (JSON.stringify(next) === JSON.stringify(this.range)) return;
    this.range = next;
    this.#tell("range");
  }

  /** The pointer is over this step of a chart, or over none. */
  hover(step, source) {
    if (step === null && this.cursor === null) return;
    this.cursor = step === null ? null : { step, source };
    this.#tell("cursor");
  }

  /** Marks a step in every chart; null for none. */
  select(step) {
    if (step === this.selected) return;
    this.selected = step;
    this.#tell("selected");
  }

  /** Learns when the steps were and where the policies begin; draws again only where that is seen. */
  setClock(clock, checkpoints = []) {
    const isSeen = this.axis === "time" || checkpoints.length !== this.checkpoints.length;
    this.clock = clock;
    this.checkpoints = checkpoints;
    if (isSeen) this.#tell("style");
  }

  /** Whether times stand on the axis: asked for, and known. */
  get onTime() {
    return this.axis === "time" && this.clock !== null && this.clock.isKnown;
  }
}

/**
 * To tenths of a step, in order, and never a single point.
 * @param {[number, number]} range
 * @returns {[number, number]}
 */
function wholeRange([a, b]) {
  const [low, high] = a <= b ? [a, b] : [b, a];
  const round = (value) => Math.round(value * 10) / 10;
  return high - low < 1 ? [round(low - 0.5), round(low + 0.5)] : [round(low), round(high)];
}

/** The view as parameters of an address; the usual choices are left out. */
export function viewQuery({ smoothing, log, axis, range }) {
  return {
    smooth: smoothing > 0 ? String(smoothing) : "",
    y: log ? "log" : "",
    x: axis === "time" ? "time" : "",
    from: range === null ? "" : String(range[0]),
    to: range === null ? "" : String(range[1]),
  };
}

/** The view of an address's parameters; whatever cannot be meant is the usual choice. */
export function viewChoice(params) {
  const number = (name) => {
    const text = params.get(name) ?? "";
    const value = Number(text);
    return text !== "" && isNumber(value) ? value : null;
  };
  const [from, to] = [number("from"), number("to")];
  return {
    smoothing: Math.min(MOST_SMOOTHING, Math.max(0, number("smooth") ?? 0)),
    log: params.get("y") === "log",
    axis: params.get("x") === "time" ? "time" : "step",
    range: from === null || to === null || from >= to ? null : [from, to],
  };
}
