/** What the page knows of one run, and how it is brought up to date. The network is handed in. */

import { alertsOnSteps } from "./alerts.js";
import { EarlierAttempts } from "./attempt_data.js";
import { resumeSteps } from "./attempts.js";
import { gradientStep } from "./gradients.js";
import {
  BATCH,
  MORE_PANELS,
  SCORED,
  TRAINER,
  chooseScope,
  metricsOf,
  trainerMetrics,
} from "./panels.js";
import { ofScorer, scorerSpans, scorersOf } from "./scorers.js";
import {
  isCutDown,
  mergePoints,
  mergeScope,
  newest,
  stepRange,
  thinned,
  thinnedPoints,
  withDetail,
} from "./series.js";

const EMPTY_TRAJECTORY = { points: [], thresholds: null, baseline: null };
/** Of a series: two for each column of pixels of a figure that fills most of a screen. */
const MAX_POINTS = 1200;
/** Of a way through the quadrant, which are drawn as points. */
const MAX_PLACES = 500;
/** A series that grows is cut down again when it has so many times more. */
const ROOM = 2;

/** Wishes that `RunData.load` serves; a number means "this step has news". */
export const WISH = { all: "all", summary: "summary", alerts: "alerts" };

/** Whether a figure stands among the measures that are folded away. */
const isFolded = (id) => MORE_PANELS.some((panel) => panel.id === id);

export class RunData {
  #api;
  #earlier;
  #maxPoints;
  #onPart;
  #onAsked;
  /** The series without the stretch that is looked at. */
  #whole = emptyPlaces();
  /** The stretch in full, by place and metric; of series that are here in full there is none. */
  #detail = emptyPlaces();
  /** @type {[number, number] | null} */
  #range = null;
  #loaded = new Set();
  #scorer = "";

  /**
   * `scorer` is the label of the one whose points alone are shown. `range` is the stretch of steps that is looked at (see `look`). `withEarlier` also loads what later attempts
   * superseded. `onPart` is called when the first figures of a
   * load can be drawn, while the rest still comes; `onAsked` when these have been asked for.
   * @param {any} api
   * @param {string} runId
   * @param {Record<string, any>} [options]
   */
  constructor(
    api,
    runId,
    { scope = "", scorer = "", range = null, withEarlier = false, maxPoints = MAX_POINTS, ...listeners } = {},
  ) {
    this.#api = api;
    this.#range = range;
    this.#maxPoints = maxPoints;
    this.#scorer = scorer;
    this.#onPart = listeners.onPart ?? (() => {});
    this.#onAsked = listeners.onAsked ?? (() => {});
    this.#earlier = withEarlier ? new EarlierAttempts(api, runId) : null;
    this.runId = runId;
    this.wantedScope = scope;
    this.scope = "first_turn";
    this.summary = null;
    /** What the figures show, by place and metric. */
    this.series = emptyPlaces();
    this.trajectory = EMPTY_TRAJECTORY;
    this.alerts = [];
    this.deadJobs = [];
    /** Batches that were laid aside because the run had too many waiting. */
    this.thinnedJobs = [];
    /** Whether the measures that stand folded away are loaded as well. */
    this.showsMore = false;
    /** Whether the figures show what later attempts superseded. */
    this.showsEarlier = true;
    this.step = null;
    /** The step whose buckets the trainer's gradient norms belong to; null when it was not scored. */
    this.bucketStep = null;
  }

  /** What a page of this address shows. */
  static of(api, route, listeners = {}) {
    const { scope, scorer } = route;
    const data = new RunData(api, route.runId, {
      ...{ scope, scorer, range: route.view.range, withEarlier: true },
      ...listeners,
    });
    data.showsEarlier = route.earlier !== "hidden";
    data.showsMore = route.more || isFolded(route.chart);
    return data;
  }

  /** Serves a set of wishes: everything, or only what the news touches. */
  async load(wishes) {
    const steps = [...wishes].filter((wish) => typeof wish === "number");
    const all = wishes.has(WISH.all) || this.summary === null;
    const summary = await this.#api.getRun(this.runId);
    const scope = chooseScope(this.wantedScope, summary.scopes);
    const sinceStep = all || scope !== this.scope ? undefined : Math.min(...steps);
    const hasNews = all || steps.length > 0;
    if (hasNews) await this.#loadScored(summary, scope, sinceStep);
    const [others, alerts, deadJobs, thinnedJobs] = await Promise.all([
      hasNews ? this.#loadOthers(summary, sinceStep) : null,
      all || wishes.has(WISH.alerts) ? this.#api.getAlerts(this.runId) : null,
      this.#loadJobs(summary, "dead"),
      this.#loadJobs(summary, "thinned"),
      this.#earlier?.load(summary, scope, all),
    ]);
    this.summary = summary;
    this.deadJobs = deadJobs;
    this.thinnedJobs = thinnedJobs;
    if (alerts !== null) this.alerts = alerts;
    if (others !== null) this.#keep(others, sinceStep);
    if (hasNews) {
      this.step = await this.#loadStep(this.regime()?.step ?? null);
      this.bucketStep = await this.#loadBucketStep();
    }
    if (all) await this.look(this.#range);
  }

  /**
   * Loads a stretch of steps in full, as far as the series are here cut down; null looks at everything. Until it
   * has come the figures show what is here. Answers whether they have more to show now.
   */
  async look(range) {
    this.#range = range;
    const wanted = range === null ? [] : this.#cutDown();
    if (wanted.length === 0) {
      this.#detail = emptyPlaces();
      this.#show();
      return range === null;
    }
    const [fromStep, toStep] = [Math.max(0, Math.floor(range[0])), Math.max(0, Math.ceil(range[1]))];
    const shape = { fromStep, toStep, maxPoints: this.#maxPoints };
    const found = await Promise.all(
      wanted.map(async ([place, metrics]) => {
        const scope = place === SCORED ? this.scope : place;
        return [place, await this.#api.getSeries(this.runId, { scope, metrics, ...shape })];
      }),
    );
    // Another stretch was asked for meanwhile, and its answer is the one that counts.
    if (this.#range !== range) return false;
    this.#detail = { ...emptyPlaces(), ...Object.fromEntries(found) };
    this.#show();
    return true;
  }

  /** Places and the metrics of which the server has more points: `[[place, [metric, …]], …]`. */
  #cutDown() {
    return Object.entries(this.#whole)
      .map(([place, scope]) => [place, Object.keys(scope).filter((metric) => isCutDown(scope[metric]))])
      .filter(([, metrics]) => metrics.length > 0);
  }

  async #loadJobs(summary, status) {
    return (summary.jobs?.[status] ?? 0) > 0 ? this.#api.getJobs(this.runId, status) : [];
  }

  /** What stands on top of the page comes first, because to read a very long run takes a while. */
  async #loadScored(summary, scope, sinceStep) {
    const answers = Promise.all([
      this.#loadSeries(summary, scope, metricsOf(SCORED, { more: this.showsMore }), sinceStep),
      this.#loadTrajectory(scope, sinceStep),
    ]);
    this.#onAsked();
    const [scored, trajectory] = await answers;
    if (scope !== this.scope) this.#detail = emptyPlaces();
    this.scope = scope;
    this.trajectory = { ...trajectory, points: thinnedPoints(trajectory.points, ROOM * this.#maxPlaces) };
    this.#keep({ [SCORED]: scored }, sinceStep);
    if (sinceStep !== undefined) return;
    this.summary = summary;
    this.#onPart();
  }

  get #maxPlaces() {
    return Math.min(this.#maxPoints, MAX_PLACES);
  }

  async #loadTrajectory(scope, sinceStep) {
    const shape = { scope, maxPoints: this.#maxPlaces };
    const update = await this.#api.getTrajectory(this.runId, { ...shape, sinceStep });
    if (sinceStep === undefined) return update;
    // A frozen or new baseline rescales every point, also those that are here already.
    if (JSON.stringify(update.thresholds) !== JSON.stringify(this.trajectory.thresholds)) {
      return this.#api.getTrajectory(this.runId, shape);
    }
    return { ...update, points: mergePoints(this.trajectory.points, update.points) };
  }

  async #loadOthers(summary, sinceStep) {
    const [batch, trainer] = await Promise.all([
      this.#loadSeries(summary, BATCH, metricsOf(BATCH, { more: this.showsMore }), sinceStep),
      this.#loadSeries(summary, TRAINER, trainerMetrics(summary.metrics?.[TRAINER] ?? []), sinceStep),
    ]);
    return { [BATCH]: batch, [TRAINER]: trainer };
  }

  /** Takes what came in the place of what was there, or as its continuation. */
  #keep(places, sinceStep) {
    for (const [place, update] of Object.entries(places)) {
      this.#loaded.add(place);
      if (sinceStep === undefined) {
        this.#whole[place] = update;
        continue;
      }
      const merged = mergeScope(this.#whole[place], update);
      const limit = ROOM * this.#maxPoints;
      for (const metric of Object.keys(update)) {
        if (merged[metric].steps.length > limit) merged[metric] = thinned(merged[metric], this.#maxPoints);
      }
      this.#whole[place] = merged;
      this.#detail[place] = extended(this.#detail[place], update, limit);
    }
    this.#show();
  }

  #show() {
    for (const [place, scope] of Object.entries(this.#whole)) {
      const detail = this.#detail[place];
      this.series[place] = { ...scope };
      for (const metric of Object.keys(detail)) {
        if (scope[metric] !== undefined) this.series[place][metric] = withDetail(scope[metric], detail[metric]);
      }
      if (place === SCORED && this.scorer !== "") this.#showScorer(this.series[place]);
    }
  }

  #showScorer(scope) {
    const spans = scorerSpans(this.trajectory.points);
    for (const metric of Object.keys(scope)) scope[metric] = ofScorer(scope[metric], spans, this.scorer);
  }

  /** Only names that the run has, so that the question stays short and cannot fail on a new run. */
  async #loadSeries(summary, scope, wanted, sinceStep) {
    const present = new Set(summary.metrics?.[scope] ?? []);
    const metrics = wanted.filter((name) => present.has(name));
    if (metrics.length === 0) return {};
    return this.#api.getSeries(this.runId, { scope, metrics, sinceStep, maxPoints: this.#maxPoints });
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

  /** Whether what the run has of a place is here; while a long run comes, its first figures are already there. */
  hasLoaded(place) {
    return this.#loaded.has(place);
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

  /** Labels of those who scored the run, the newest first. */
  scorers() {
    return scorersOf(this.trajectory.points);
  }

  /** Shows only what one scorer made, by its label; everything for an empty one. */
  setScorer(label) {
    this.#scorer = label;
    this.#show();
  }

  /** The label of the scorer whose points alone are shown; empty where all are. */
  get scorer() {
    return this.scorers().includes(this.#scorer) ? this.#scorer : "";
  }

  /** The trajectory of the scorer that is shown. */
  shownTrajectory() {
    if (this.scorer === "") return this.trajectory;
    const points = this.trajectory.points.filter((point) => point.scorer === this.scorer);
    return { ...this.trajectory, points };
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

const emptyPlaces = () => ({ [SCORED]: {}, [BATCH]: {}, [TRAINER]: {} });

/** Stretches with news laid over their ends; one that has grown too long is left to what the whole shows. */
function extended(detail, update, limit) {
  const kept = {};
  for (const [metric, stretch] of Object.entries(detail)) {
    const news = update[metric];
    const last = stretch.steps[stretch.steps.length - 1];
    const reaches = news !== undefined && news.steps.length > 0 && news.steps[0] <= last;
    const merged = reaches ? mergeScope({ [metric]: stretch }, { [metric]: news })[metric] : stretch;
    if (merged.steps.length <= limit) kept[metric] = merged;
  }
  return kept;
}
