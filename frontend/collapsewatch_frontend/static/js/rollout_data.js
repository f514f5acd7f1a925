/** What the screen of rollouts holds, and what has to be loaded for it. Pure: the network is handed in. */

/** Rollouts of a step that are asked for at once. */
export const PAGE_SIZE = 200;
/** Hits after which a search rests until somebody asks for more. */
export const ENOUGH_HITS = 50;
const BUSY = 429;
const NUM_TRIES = 6;
const BUSY_MS = 1_000;
const NO_SEARCH = { hits: [], next: null, numRollouts: 0, numSteps: 0, unreadable: 0, removed: 0, isRunning: false };

/** A part of the screen: what was asked for by which key, and what came of it. */
const part = () => ({ key: null, value: null, error: null, isLoading: false, isDue: false });

/** From here on the part is about this key; what it held of another one is gone. */
function aim(target, key) {
  if (target.key === key) return;
  Object.assign(target, { key, value: null, error: null, isLoading: false, isDue: key !== null });
}

/**
 * `choice` is what the address says: `{step, index, attempt, group, order, text, where, …}`.
 * `onChange()` is called whenever there is something new to show.
 */
export class RolloutData {
  run = part();
  list = part();
  trace = part();
  template = part();
  search = { key: null, error: null, ...NO_SEARCH };
  #api;
  #runId;
  #onChange;
  #wait;
  #numWanted = PAGE_SIZE;
  #stopped = false;

  constructor(api, runId, onChange, { wait = (ms) => new Promise((done) => setTimeout(done, ms)) } = {}) {
    this.#api = api;
    this.#runId = runId;
    this.#onChange = onChange;
    this.#wait = wait;
  }

  stop() {
    this.#stopped = true;
  }

  /** Loads what the choice shows and is not there yet; with `again` also what may have changed meanwhile. */
  async show(choice, { again = false } = {}) {
    const { step, attempt, group, order, index, text, where } = choice;
    const keys = {
      run: this.#runId,
      list: JSON.stringify([step, attempt, group, order]),
      trace: step === null || index === null ? null : JSON.stringify([step, attempt, index]),
      template: step === null ? null : JSON.stringify([step, attempt]),
    };
    if (keys.list !== this.list.key) this.#numWanted = PAGE_SIZE;
    // All at once, so that nothing of another step is shown beside what is loaded first.
    for (const [name, key] of Object.entries(keys)) aim(this[name], key);
    const asks = {
      run: () => this.#api.getRun(this.#runId),
      list: () => this.#rows(choice),
      trace: () => this.#api.getRollout(this.#runId, step, index, { attempt }),
    };
    await Promise.all([
      this.#search(JSON.stringify([text, where, attempt]), choice),
      ...Object.entries(asks).map(([name, ask]) =>
        keys[name] === null ? null : this.#load(this[name], keys[name], again, ask),
      ),
      keys.template === null ? null : this.#loadTemplate(choice, keys.template, again),
    ]);
  }

  /** Takes what was loaded without a step as that of the step which it turned out to be. */
  settle({ step, attempt, group, order }) {
    this.list.key = JSON.stringify([step, attempt, group, order]);
  }

  /** Takes notice of a batch that arrived: the way to other steps is known without asking for it. */
  sawBatch(step) {
    const list = this.list.value;
    if (list === null || !Number.isInteger(step)) return;
    const { step: shown, next_step: next, previous_step: previous } = list;
    this.list.value = {
      ...list,
      first_step: Math.min(list.first_step, step),
      last_step: Math.max(list.last_step, step),
      next_step: step > shown && (next === null || step < next) ? step : next,
      previous_step: step < shown && (previous === null || step > previous) ? step : previous,
    };
    this.#onChange();
  }

  /** Asks for more rows of the list. */
  async more(choice) {
    this.#numWanted += PAGE_SIZE;
    await this.#load(this.list, this.list.key, true, () => this.#rows(choice));
  }

  /** Goes on with a search that rests. */
  async searchOn(choice) {
    if (this.search.next === null || this.search.isRunning) return;
    await this.#searchUntil(this.search.key, choice, this.search.hits.length + ENOUGH_HITS);
  }

  async #rows({ step, attempt, group, order }) {
    let found = null;
    for (let offset = 0; offset < this.#numWanted; offset += PAGE_SIZE) {
      const page = await this.#api.getRollouts(this.#runId, {
        step: found?.step ?? step,
        attempt,
        group,
        order,
        offset,
        limit: PAGE_SIZE,
      });
      found = found === null ? page : { ...page, rollouts: [...found.rollouts, ...page.rollouts] };
      if (found.rollouts.length >= found.num_found) break;
    }
    return found;
  }

  async #load(target, key, again, ask) {
    if (!target.isDue && !again && target.error === null) return;
    target.isDue = false;
    target.isLoading = true;
    target.error = null;
    this.#onChange();
    try {
      const value = await this.#patiently(ask);
      if (target.key === key) target.value = value;
    } catch (error) {
      if (target.key === key) target.error = error;
    }
    if (target.key !== key) return;
    target.isLoading = false;
    if (!this.#stopped) this.#onChange();
  }

  /** Counting phrases in a long run takes several calls; each shows what is known so far. */
  async #loadTemplate({ step, attempt }, key, again) {
    do {
      await this.#load(this.template, key, again, () =>
        this.#api.getTemplate(this.#runId, { step, attempt }),
      );
      again = true;
    } while (
      this.template.key === key &&
      this.template.error === null &&
      this.template.value?.is_complete === false &&
      !this.#stopped
    );
  }

  async #search(key, choice) {
    if (key === this.search.key) return;
    this.search = { key, error: null, ...NO_SEARCH };
    if (choice.text.trim() !== "") await this.#searchUntil(key, choice, ENOUGH_HITS);
  }

  async #searchUntil(key, { text, where, attempt }, numHits) {
    const search = this.search;
    search.isRunning = true;
    search.error = null;
    this.#onChange();
    try {
      do {
        const from = { from_step: search.next?.step, from_index: search.next?.index };
        const wanted = { q: text, where, attempt, ...from, limit: ENOUGH_HITS };
        const found = await this.#patiently(() => this.#api.searchRollouts(this.#runId, wanted));
        if (this.search.key !== key || this.#stopped) return;
        search.hits = [...search.hits, ...found.hits];
        search.next = found.next;
        search.numRollouts += found.num_rollouts;
        search.numSteps += found.num_steps;
        search.unreadable += found.unreadable_steps.length;
        search.removed += found.num_removed_steps;
        this.#onChange();
      } while (search.next !== null && search.hits.length < numHits);
    } catch (error) {
      search.error = error;
    }
    search.isRunning = false;
    if (this.search.key === key && !this.#stopped) this.#onChange();
  }

  /** The answer; a server that is busy with other rollouts is asked again. */
  async #patiently(ask) {
    for (let number = 1; ; number += 1) {
      try {
        return await ask();
      } catch (error) {
        if (error.status !== BUSY || number === NUM_TRIES || this.#stopped) throw error;
        await this.#wait(BUSY_MS);
      }
    }
  }
}
