/** The steps that a person looks at, in detail. The network is handed in. */

const MOST_KEPT = 12;

/** Reads scored steps once: what a step was does not change often, and the newest is handed in. */
export class StepBook {
  #api;
  #runId;
  #steps = new Map();
  #histories = new Map();

  constructor(api, runId) {
    this.#api = api;
    this.#runId = runId;
  }

  /** The step in a scope; null when it was not scored in it. */
  step(step, scope) {
    return this.#read(this.#steps, `${scope} ${step}`, () => this.#api.getStep(this.#runId, step, scope));
  }

  /** What the filter rules kept until the step; null when it cannot be told. */
  kept(step) {
    return this.#read(this.#histories, String(step), () => this.#api.getKept(this.#runId, step));
  }

  /** Forgets what the result of a step, perhaps a late one, may have changed; all of it without a step. */
  news(step = null) {
    if (step === null) this.#steps.clear();
    for (const key of this.#steps.keys()) {
      if (key.endsWith(` ${step}`)) this.#steps.delete(key);
    }
    for (const key of this.#histories.keys()) {
      if (step === null || Number(key) >= step) this.#histories.delete(key);
    }
  }

  async #read(known, key, load) {
    if (known.has(key)) return known.get(key);
    let answer;
    try {
      answer = await load();
    } catch (error) {
      if (error.status !== 404) throw error;
      answer = null;
    }
    known.set(key, answer);
    if (known.size > MOST_KEPT) known.delete(known.keys().next().value);
    return answer;
  }
}

/** The scored step at or before the one asked for, else the first; null before any. */
export function scoredStep(points, asked) {
  if (points.length === 0) return null;
  if (asked === null) return points[points.length - 1].step;
  let found = points[0].step;
  for (const { step } of points) {
    if (step > asked) break;
    found = step;
  }
  return found;
}

/** The scored steps beside one: `{before, after}`, null at the ends. */
export function neighbours(points, step) {
  let before = null;
  for (const point of points) {
    if (point.step < step) before = point.step;
    if (point.step > step) return { before, after: point.step };
  }
  return { before, after: null };
}
