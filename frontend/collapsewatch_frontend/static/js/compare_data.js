/** What the page knows of several runs, and how it is brought up to date. The network is handed in. */

import { COMPARED, MAX_RUNS, addedFigure, questions } from "./compare.js";
import { BATCH, SCORED, TRAINER, chooseScope } from "./panels.js";

const PLACES = [SCORED, BATCH, TRAINER];

/** Wishes that `load` serves; `run <id>` stands for news of one run. */
export const ALL = "all";
export const newsOf = (runId) => `run ${runId}`;

/** The intervals of more runs are not drawn. */
const MOST_WITH_INTERVALS = 4;

const placesOf = (series) => series.places ?? series.steps;
const keyOf = (place, metric) => `${place}:${metric}`;

const nothing = (axis) => ({
  axis,
  groups: [],
  series: new Map(),
  paths: new Map(),
  groupPaths: [],
  unplaced: {},
});

/** What a route says of the comparison itself. */
export const choiceOf = ({ scope, axis, groupBy, band, hidden, added, sort, settings }) => ({
  scope,
  axis,
  groupBy,
  band,
  hidden,
  added,
  sort,
  settings,
});

/** Of each series: more runs share the pixels of a figure. */
const pointsFor = (numRuns) => (numRuns <= 4 ? 1000 : numRuns <= 10 ? 500 : 300);

export class CompareData {
  #api;
  #maxPoints;
  #onAsked;
  #loadedFor;
  #only;

  /**
   * `maxPoints`: of each series; about as many as a figure has pixels. `onAsked` is called when what the figures
   * show has been asked for; `only` are the figures of a page that has no others.
   */
  constructor(api, runIds, choice, { maxPoints = 600, onAsked = () => {}, only = null } = {}) {
    this.#only = only;
    this.#api = api;
    this.#maxPoints = maxPoints;
    this.#onAsked = onAsked;
    this.runIds = runIds;
    this.choice = choice;
    this.scope = choice.scope === "" ? "first_turn" : choice.scope;
    /** The runs as they stand, in the order of the address; null before they came. */
    this.runs = null;
    this.missing = [];
    /**
     * What the figures show, all of one choice: `series` is `<place>:<metric>` → `{runs: Map of series, groups}`,
     * `unplaced` says why runs have no place on the axis.
     */
    this.shown = nothing(choice.axis);
    /** The series in full for the part of the axis that is in view; null while all of it is. */
    this.detail = null;
    this.#loadedFor = "";
  }

  /** What a page of this address shows. */
  static of(api, route, listeners = {}) {
    const runIds = route.runIds.slice(0, MAX_RUNS);
    return new CompareData(api, runIds, choiceOf(route), { maxPoints: pointsFor(runIds.length), ...listeners });
  }

  /** The figures of the page: the usual ones, then those that a person added. */
  figures() {
    if (this.#only !== null) return this.#only;
    const added = this.choice.added.map(addedFigure).filter((figure) => figure !== null);
    return [...COMPARED, ...added];
  }

  /**
   * Serves a set of wishes; `onPart` is called whenever something came that can be shown. Without groups news
   * of one run brings that run alone; the mean of a group needs all of them.
   */
  async load(wishes, onPart = () => {}) {
    const { scope, axis, groupBy, added } = this.choice;
    const asked = JSON.stringify([scope, axis, groupBy, added]);
    const wholly = wishes.has(ALL) || asked !== this.#loadedFor || groupBy.length > 0;
    const groups = await this.#loadRuns();
    const isFirst = this.#loadedFor === "";
    const there = this.runs.map((run) => run.run_id);
    const wanted = wholly ? there : there.filter((runId) => wishes.has(newsOf(runId)));
    const fresh = wholly ? { ...nothing(axis), groups } : this.shown;
    // What is shown stays until all of another choice is here; only an empty page fills part by part.
    if (isFirst) this.shown = fresh;
    const part = () => (isFirst ? onPart() : undefined);
    const ask = (place) => this.#loadSeries(place, wanted, fresh, { onPart: part });
    const others = PLACES.filter((place) => place !== SCORED);
    if (wanted.length > 0) {
      // What stands on top comes first, and is asked for before the table is drawn, which keeps the page busy.
      const first = [this.#loadPaths(wanted, fresh).then(part), ask(SCORED)];
      this.#onAsked();
      onPart();
      await Promise.all(first);
      await Promise.all(others.map(ask));
    }
    this.shown = fresh;
    if (wholly) this.detail = null;
    this.#loadedFor = asked;
    onPart();
  }

  /** Brings the part of the axis that is shown in full; null goes back to all of it. */
  async loadDetail(range) {
    if (range === null) {
      this.detail = null;
      return;
    }
    const into = nothing(this.shown.axis);
    const there = this.runs.map((run) => run.run_id);
    await Promise.all(PLACES.map((place) => this.#loadSeries(place, there, into, { range })));
    if (into.axis === this.shown.axis) this.detail = { range, series: into.series };
  }

  /** One metric of one run, in full where a part of the axis is shown; undefined when the run has none. */
  seriesOf(place, metric, runId) {
    const key = keyOf(place, metric);
    const whole = this.shown.series.get(key)?.runs.get(runId);
    return this.#inFull(whole, this.detail?.series.get(key)?.runs.get(runId));
  }

  /** One metric's means over the groups. */
  groupSeries(place, metric) {
    const key = keyOf(place, metric);
    const details = this.detail?.series.get(key)?.groups ?? [];
    return (this.shown.series.get(key)?.groups ?? []).map((whole) =>
      this.#inFull(
        whole,
        details.find(({ group }) => group === whole.group),
      ),
    );
  }

  /** The part of a series that is in view in full, and around it what is known of the whole. */
  #inFull(whole, part) {
    if (whole === undefined || part === undefined) return whole;
    const [from, to] = this.detail.range;
    const places = placesOf(whole);
    const end = places.findIndex((place) => place > to);
    const before = places.filter((place) => place < from).length;
    const within = placesOf(part).map((place) => place >= from && place <= to);
    const [first, last] = [within.indexOf(true), within.lastIndexOf(true) + 1];
    if (first === -1) return whole;
    const joined = Object.entries(whole).map(([name, column]) =>
      Array.isArray(column)
        ? [
            name,
            [
              ...column.slice(0, before),
              ...(part[name] ?? placesOf(part).map(() => null)).slice(first, last),
              ...(end === -1 ? [] : column.slice(end)),
            ],
          ]
        : [name, column],
    );
    return Object.fromEntries(joined);
  }

  /** First and last place over all series of all figures; null before any. */
  placeRange() {
    let low = Infinity;
    let high = -Infinity;
    for (const { runs } of this.shown.series.values()) {
      for (const series of runs.values()) {
        const places = placesOf(series);
        if (places.length === 0) continue;
        low = Math.min(low, places[0]);
        high = Math.max(high, places[places.length - 1]);
      }
    }
    return low <= high ? [low, high] : null;
  }

  /** Why no run has a value of the metric, in the server's words; null when there is no one reason. */
  absentReason(metric) {
    const reasons = new Set(this.runs.map((run) => run.absent[metric] ?? null));
    return reasons.size === 1 ? [...reasons][0] : null;
  }

  async #loadRuns() {
    const ask = (scope) =>
      this.#api.getComparison(this.runIds, {
        scope,
        scalars: this.figures()
          .filter((figure) => figure.scope === TRAINER)
          .map((figure) => figure.metric),
        groupBy: this.choice.groupBy,
      });
    let answer = await ask(this.scope);
    const scope = chooseScope(this.choice.scope, [...new Set(answer.runs.flatMap((run) => run.scopes))]);
    if (scope !== answer.scope) answer = await ask(scope);
    this.scope = scope;
    this.runs = answer.runs;
    this.missing = answer.missing;
    return answer.groups;
  }

  async #loadPaths(runIds, into) {
    const update = await this.#api.getComparedPaths(runIds, {
      scope: this.scope,
      groupBy: this.choice.groupBy,
    });
    for (const path of update.paths) into.paths.set(path.run_id, path);
    into.groupPaths = update.groups;
  }

  async #loadSeries(place, runIds, into, { range = null, onPart = () => {} } = {}) {
    const scope = place === SCORED ? this.scope : place;
    const asked = questions(this.figures(), this.runs, place, scope);
    await Promise.all(
      asked.map((question) => this.#ask(question, { place, scope, runIds, into, range }).then(onPart)),
    );
  }

  async #ask({ metrics, maxPoints = this.#maxPoints }, { place, scope, runIds, into, range }) {
    const answer = await this.#api.getComparedSeries(runIds, {
      scope,
      metrics,
      axis: into.axis,
      groupBy: this.choice.groupBy,
      maxPoints,
      range,
      intervals: this.runs.length <= MOST_WITH_INTERVALS,
    });
    for (const metric of metrics) {
      const key = keyOf(place, metric);
      const runs = into.series.get(key)?.runs ?? new Map();
      for (const series of answer.series[metric] ?? []) runs.set(series.run_id, series);
      into.series.set(key, { runs, groups: answer.groups[metric] ?? [] });
    }
    Object.assign(into.unplaced, answer.unplaced);
  }
}
