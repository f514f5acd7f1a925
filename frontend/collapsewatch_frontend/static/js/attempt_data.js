/** Loads what later attempts superseded, apart from the run's own series. The network is handed in. */

import { drawnAttempts } from "./attempts.js";
import { BATCH, SCORED, TRAINER, metricsOf, trainerMetrics } from "./panels.js";

export class EarlierAttempts {
  #api;
  #runId;
  #signature = "";

  constructor(api, runId) {
    this.#api = api;
    this.#runId = runId;
    /** `[{attemptId, number, fromStep, series, points}]`, the oldest first. */
    this.list = [];
  }

  /** Loads again only when an attempt came, or an earlier one grew, or when told to (`force`). */
  async load(summary, scope, force) {
    const wanted = drawnAttempts(summary.attempts);
    const signature = JSON.stringify([scope, wanted]);
    if (!force && signature === this.#signature) return;
    this.list = await Promise.all(wanted.map((attempt) => this.#loadOne(attempt, summary, scope)));
    this.#signature = signature;
  }

  async #loadOne(attempt, summary, scope) {
    const where = { sinceStep: attempt.fromStep, attempt: attempt.attemptId };
    const series = (place, wanted) => {
      const present = new Set(summary.metrics?.[place] ?? []);
      const metrics = wanted.filter((name) => present.has(name));
      return metrics.length === 0
        ? {}
        : this.#api.getSeries(this.#runId, { scope: place, metrics, ...where });
    };
    const [scored, batch, trainer, trajectory] = await Promise.all([
      series(scope, metricsOf(SCORED)),
      series(BATCH, metricsOf(BATCH)),
      series(TRAINER, trainerMetrics(summary.metrics?.[TRAINER] ?? [])),
      this.#api.getTrajectory(this.#runId, { scope, ...where }),
    ]);
    return {
      ...attempt,
      series: { [SCORED]: scored, [BATCH]: batch, [TRAINER]: trainer },
      points: trajectory.points,
    };
  }
}
