/** When to load again. No clock of its own: timers are handed in. */

/** Seconds to wait before reconnect number `attempt` (from 0): 1, 2, 4 … 30, spread by ± 25 %. */
export function backoffSeconds(attempt, random = Math.random) {
  return Math.min(30, 2 ** attempt) * (0.75 + 0.5 * random());
}

/** So often at most a page loads that nobody looks at: its title still tells of alerts. */
const AWAY_MS = 60_000;

/** Whether anybody looks at the page; who waits meanwhile is told when somebody does again. */
export class Attention {
  #waiting = new Set();
  isAway = false;

  set(isAway) {
    this.isAway = isAway;
    if (!isAway) for (const wake of this.#waiting) wake();
  }

  watch(wake) {
    this.#waiting.add(wake);
    return () => this.#waiting.delete(wake);
  }
}

/** Since when something on the page could not be loaded. */
export class Freshness {
  #failing = new Map();
  #listeners = new Set();

  /** @type {number | null} */
  get staleSinceMs() {
    return this.#failing.size === 0 ? null : Math.min(...this.#failing.values());
  }

  note(who, failingSinceMs) {
    const before = this.staleSinceMs;
    if (failingSinceMs === null) this.#failing.delete(who);
    else this.#failing.set(who, failingSinceMs);
    if (this.staleSinceMs !== before) for (const tell of this.#listeners) tell();
  }

  subscribe(tell) {
    this.#listeners.add(tell);
    return () => this.#listeners.delete(tell);
  }
}

/** Of the one page that there is. */
export const attention = new Attention();
export const freshness = new Freshness();

/**
 * Gathers wishes to reload and serves them together, one load at a time.
 * A wish that comes during a load is served by the next one, so the last event is never missed.
 */
export class Refresher {
  #load;
  #delayMs;
  #onError;
  #setTimer;
  #clearTimer;
  #wishes = new Set();
  #timer = null;
  #loading = false;
  #failures = 0;
  #stopped = false;
  #now;
  #attention;
  #freshness;
  #stopWatching;
  /** When it last loaded; null before. */
  #loadedMs = null;

  /**
   * @param {(wishes: Set<any>) => any} load
   * @param {{delayMs?: number, onError?: (error: any) => any, setTimer?: (callback: () => any, ms: number) => any,
   *   clearTimer?: (timer: any) => any, now?: () => number, attention?: Attention, freshness?: Freshness}} options
   */
  constructor(
    load,
    {
      delayMs = 400,
      onError = () => {},
      setTimer = (callback, ms) => setTimeout(callback, ms),
      clearTimer = (timer) => clearTimeout(timer),
      now = () => Date.now(),
      ...shared
    } = {},
  ) {
    this.#now = now;
    this.#attention = shared.attention ?? attention;
    this.#freshness = shared.freshness ?? freshness;
    this.#stopWatching = this.#attention.watch(() => this.#wake());
    this.#load = load;
    this.#delayMs = delayMs;
    this.#onError = onError;
    this.#setTimer = setTimer;
    this.#clearTimer = clearTimer;
  }

  /** Asks for a reload of `wish` soon. */
  request(wish, delayMs = this.#delayMs) {
    this.#add(wish);
    this.#schedule(delayMs);
  }

  /** Asks for a reload at once, or right after the one under way. */
  requestNow(wish) {
    this.#add(wish);
    if (this.#timer !== null) this.#clearTimer(this.#timer);
    this.#timer = null;
    this.#schedule(0);
  }

  stop() {
    this.#stopped = true;
    this.#stopWatching();
    this.#freshness.note(this, null);
    if (this.#timer !== null) this.#clearTimer(this.#timer);
  }

  /** Of steps the first is enough: what came after it is loaded with it, however many there were. */
  #add(wish) {
    if (typeof wish === "number") {
      for (const other of this.#wishes) {
        if (typeof other !== "number") continue;
        if (other <= wish) return;
        this.#wishes.delete(other);
      }
    }
    this.#wishes.add(wish);
  }

  #schedule(ms) {
    if (this.#stopped || this.#loading || this.#timer !== null) return;
    const isPutOff = this.#attention.isAway && this.#loadedMs !== null;
    this.#timer = this.#setTimer(() => this.#run(), isPutOff ? Math.max(ms, AWAY_MS) : ms);
  }

  #wake() {
    if (this.#timer === null) return;
    this.#clearTimer(this.#timer);
    this.#timer = null;
    this.#schedule(0);
  }

  async #run() {
    this.#timer = null;
    this.#loading = true;
    const wishes = this.#wishes;
    this.#wishes = new Set();
    let wait = this.#delayMs;
    try {
      await this.#load(wishes);
      this.#failures = 0;
      this.#loadedMs = this.#now();
      this.#freshness.note(this, null);
    } catch (error) {
      for (const wish of wishes) this.#add(wish);
      wait = backoffSeconds(this.#failures) * 1000;
      this.#failures += 1;
      if (this.#onError(error) === "give up") this.#wishes.clear();
      else if (!this.#stopped) this.#freshness.note(this, this.#loadedMs ?? this.#now());
    } finally {
      this.#loading = false;
      if (this.#wishes.size > 0) this.#schedule(wait);
    }
  }
}

/**
 * Whether a view still shows what the server has, in the words of the page: only with a stream that is open,
 * and when what it told of could be loaded.
 */
export function liveState({ connected, lostAtMs, everConnected, staleSinceMs = null }) {
  if (connected && staleSinceMs === null) return { kind: "live", sinceMs: null };
  if (!everConnected) return { kind: "connecting", sinceMs: lostAtMs };
  const moments = [connected ? null : lostAtMs, staleSinceMs].filter((moment) => moment !== null);
  return { kind: "stale", sinceMs: Math.min(...moments), connected };
}
