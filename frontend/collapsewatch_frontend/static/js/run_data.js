/** What the page knows of one run, and how it is brought up to date. The network is handed in. */

import { alertsOnSteps } from "./alerts.js";
import { EarlierAttempts } from "./attempt_data.js";
import { resumeSteps } from "./attempts.js";
import { gradientStep } from "./gradients.js";
import { BATCH, SCORED, TRAINER, chooseScope, metricsOf } from "./panels.js";
import { mergePoints, mergeScope, newest, stepRange } from "./series.js";

const EMPTY_TRAJECTORY = { points: [], thresholds: null, baseline: null };

/** Wishes that `RunData.load` serves; a number means "this step has news". */
export const WISH = { all: "all", summary: "summary", alerts: "alerts" };

export class RunData {
  #api;
  #earlier;

  /** `withEarlier` also loads what later attempts superseded. */
  constructor(api, runId, { scope = "", withEarlier = false } = {}) {
    this.#api = api;
    this.#earlier = withEarlier ? new EarlierAttempts(api, runId) : null;
    this.runId = runId;
    this.wantedScope = scope;
    this.scope = "first_turn";
    this.summary = null;
    this.series = { [SCORED]: {}, [BATCH]: {}, [TRAINER]: {} };
    this.trajectory = EMPTY_TRAJECTORY;
    this.alerts = [];
    this.deadJobs = [];
    /** Batches that were laid aside because the run had too many waiting. */
    this.thinnedJobs = [];
    /** Whether the figures show what later attempts superseded. */
    this.showsEarlier = true;
    this.step = null;
    /** The step whose buckets the trainer's gradient norms belong to; null when it was not scored. */
    this.bucketStep = null;
  }

  /** Serves a set of wishes: everything, or only what the news touches. */
  async load(wishes) {
    const steps = [...wishes].filter((wish) => typeof wish === "number");
    const all = wishes.has(WISH.all) || this.summary === null;
    const summary = await this.#api.getRun(this.runId);
    const scope = chooseScope(this.wantedScope, summary.scopes);
    const sinceStep = all || scope !== this.scope ? undefined : Math.min(...steps);
    const parts = await Promise.all([
      all || steps.length > 0 ? this.#loadPoints(summary, scope, sinceStep) : null,
      all || wishes.has(WISH.alerts) ? this.#api.getAlerts(this.runId) : null,
      this.#loadJobs(summary, "dead"),
      this.#loadJobs(summary, "thinned"),
      this.#earlier?.load(summary, scope, all),
    ]);
    this.#keep(summary, scope, parts, sinceStep);
    if (all || steps.length > 0) {
      this.step = await this.#loadStep(this.regime()?.step ?? null);
      this.bucketStep = await this.#loadBucketStep();
    }
  }

  async #loadJobs(summary, status) {
    return (summary.jobs?.[status] ?? 0) > 0 ? this.#api.getJobs(this.runId, status) : [];
  }

  #keep(summary, scope, [points, alerts, deadJobs, thinnedJobs], sinceStep) {
    this.summary = summary;
    this.scope = scope;
    this.deadJobs = deadJobs;
    this.thinnedJobs = thinnedJobs;
    if (alerts !== null) this.alerts = alerts;
    if (points === null) return;
    for (const [place, update] of Object.entries(points.series)) {
      this.series[place] = sinceStep === undefined ? update : mergeScope(this.series[place], update);
    }
    this.trajectory = points.whole
      ? points.trajectory
      : { ...points.trajectory, points: mergePoints(this.trajectory.points, points.trajectory.points) };
  }

  async #loadPoints(summary, scope, sinceStep) {
    const [scored, batch, trainer, update] = await Promise.all([
      this.#loadSeries(summary, scope, metricsOf(SCORED), sinceStep),
      this.#loadSeries(summary, BATCH, metricsOf(BATCH), sinceStep),
      this.#loadSeries(summary, TRAINER, summary.metrics?.[TRAINER] ?? [], sinceStep),
      this.#api.getTrajectory(this.runId, { scope, sinceStep }),
    ]);
    const series = { [SCORED]: scored, [BATCH]: batch, [TRAINER]: trainer };
    if (sinceStep === undefined) return { series, trajectory: update, whole: true };
    // A frozen or new baseline rescales every point, also those that are here already.
    if (JSON.stringify(update.thresholds) === JSON.stringify(this.trajectory.thresholds)) {
      return { series, trajectory: update, whole: false };
    }
    return { series, trajectory: await this.#api.getTrajectory(this.runId, { scope }), whole: true };
  }

  /** Only names that the run has, so that the question stays short and cannot fail on a new run. */
  async #loadSeries(summary, scope, wanted, sinceStep) {
    const present = new Set(summary.metrics?.[scope] ?? []);
    const metrics = wanted.filter((name) => present.has(name));
    if (metrics.length === 0) return {};
    return this.#api.getSeries(this.runId, { scope, metrics, sinceStep });
  }

  /** Usually the newest scored step, which is here already. */
  async #loadBucketStep() {
    const step = gradientStep(this.series[TRAINER], this.step?.step ?? null);
    return step === (this.step?.step ?? null) ? this.step : this.#loadStep(step);
  }

  /** A scored step in detail; null when there is none. */
  async #loadStep(step) {
    if (step === null) return null;
    try {
      return await this.#api.getStep(this.runId, step, this.scope);
    } catch (error) {
      if (error.status === 404) return null;
      throw error;
    }
  }

  /** The newest point of a metric. */
  newest(place, metric) {
    return newest(this.series[place][metric]);
  }

  /** Where the run stands in the scope that is shown; null when nothing was scored in it. */
  regime() {
    const standing = this.summary?.regime ?? null;
    if (standing !== null && standing.scope === this.scope) return standing;
    const last = this.trajectory.points[this.trajectory.points.length - 1];
    return last === undefined
      ? null
      : { scope: this.scope, regime: last.regime, reason: last.reason, step: last.step };
  }

  /** What the figures show of earlier attempts: `[{number, fromStep, series, points}]`. */
  earlier() {
    return this.showsEarlier ? (this.#earlier?.list ?? []) : [];
  }

  /** First and last step over all series that are shown: the one time axis of all figures. */
  stepRange() {
    const shown = [this.series, ...this.earlier().map((attempt) => attempt.series)];
    return stepRange(
      shown.flatMap((places) => Object.values(places).flatMap((scope) => Object.values(scope))),
    );
  }

  /** Alerts with a place on the step axis, as far as their attempt is shown. */
  shownAlerts() {
    return alertsOnSteps(this.alerts, { earlier: this.earlier().length > 0 });
  }

  /** `[{step, number}]`: where the training was started again. */
  resumes() {
    return resumeSteps(this.summary?.attempts);
  }

  /** Why a metric has no value, in the server's words; null when it only has not come yet. */
  absentReason(metric) {
    return this.summary?.absent?.[metric] ?? this.step?.evaluation?.absent?.[metric] ?? null;
  }
}
