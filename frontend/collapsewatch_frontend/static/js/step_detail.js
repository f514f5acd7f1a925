/** What a person sees of a step: the step, another beside it, and what filters kept. The network is handed in. */

import { scoredStep } from "./step_book.js";

/** What filters kept is read again this seldom while the newest step moves on. */
const KEPT_MS = 15_000;

/** @typedef {{step: any, then: any, kept: any}} Detail answers of the API, each null where there is none */

/** Reads what was asked for last; an answer that comes late is dropped. */
export class StepDetail {
  #book;
  #now;
  #numAsked = 0;
  #keptAtMs = 0;
  /** @type {Detail} */
  shown = { step: null, then: null, kept: null };

  /** @param {import("./step_book.js").StepBook} book */
  constructor(book, { now = Date.now } = {}) {
    this.#book = book;
    this.#now = now;
  }

  /**
   * Reads the step that is `selected` (null for the newest), the one `against` it, and with `withKept` what filters
   * kept. Answers whether there is something else to show now; throws what the network threw.
   */
  async load({ data, selected, against, withKept }) {
    this.#numAsked += 1;
    const asked = this.#numAsked;
    const before = this.shown;
    const step = await this.#readStep(data, selected);
    const then = step === null || against === null ? null : await this.#book.step(against, data.scope);
    const kept = step === null || !withKept ? null : await this.#readKept(step, selected);
    if (asked !== this.#numAsked) return false;
    this.shown = { step, then, kept };
    return step !== before.step || then !== before.then || kept !== before.kept;
  }

  /** The newest step is usually here already. */
  async #readStep(data, selected) {
    const step = scoredStep(data.shownTrajectory().points, selected);
    if (step === null) return null;
    const isHere =
      data.scorer === "" && step === data.step?.step && data.step.evaluation.scope === data.scope;
    return isHere ? data.step : this.#book.step(step, data.scope);
  }

  /** Reading a hundred steps costs the server something: seldom while a run goes on. */
  async #readKept(step, selected) {
    if (step.filters.length === 0) return null;
    const { kept } = this.shown;
    if (kept?.step === step.step) return kept;
    if (selected === null && kept !== null && this.#now() - this.#keptAtMs < KEPT_MS) return kept;
    this.#keptAtMs = this.#now();
    return this.#book.kept(step.step);
  }
}
