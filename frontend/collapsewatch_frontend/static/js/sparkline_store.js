/** The small lines of the runs in sight, asked for together and only when a run has newer scores. */

import { Refresher } from "./refresh.js";

const DELAY_MS = 120;
const MOST_AT_ONCE = 100;
/** Lines of runs that were scrolled past are kept, but not without end. */
const MOST_KEPT = 1_000;

export class SparklineStore {
  #load;
  #onNews;
  #refresher;
  #lines = new Map();
  #wanted = new Map();

  /** `load(runIds)` answers `{runId: line}`; `onNews` is called when lines have come. */
  constructor(load, onNews, timers = {}) {
    this.#load = load;
    this.#onNews = onNews;
    this.#refresher = new Refresher(() => this.#loadMissing(), {
      delayMs: DELAY_MS,
      // The list itself tells that the server is away; the lines are asked for with the next one.
      onError: () => "give up",
      ...timers,
    });
  }

  /** The run's line as it was loaded last; undefined when it was not yet. */
  of(runId) {
    return this.#lines.get(runId)?.line;
  }

  /** Says which runs are in sight; lines that are missing or old come soon. */
  want(runs) {
    this.#wanted = new Map(
      runs
        .filter((run) => this.#lines.get(run.run_id)?.of !== signature(run))
        .map((run) => [run.run_id, run]),
    );
    if (this.#wanted.size > 0) this.#refresher.request("lines");
  }

  stop() {
    this.#refresher.stop();
  }

  async #loadMissing() {
    const runs = [...this.#wanted.values()].slice(0, MOST_AT_ONCE);
    if (runs.length === 0) return;
    const found = await this.#load(runs.map((run) => run.run_id));
    for (const run of runs) {
      this.#lines.delete(run.run_id);
      this.#lines.set(run.run_id, { of: signature(run), line: found[run.run_id] ?? null });
    }
    for (const key of this.#lines.keys()) {
      if (this.#lines.size <= MOST_KEPT) break;
      this.#lines.delete(key);
    }
    this.#onNews();
  }
}

/** What changes when a run has newer scores. */
const signature = (run) => JSON.stringify([run.regime?.step, run.latest.retrieval_skill]);
