/** When to load again. No clock of its own: timers are handed in. */

/** Seconds to wait before reconnect number `attempt` (from 0): 1, 2, 4 … 30, spread by ± 25 %. */
export function backoffSeconds(attempt, random = Math.random) {
  return Math.min(30, 2 ** attempt) * (0.75 + 0.5 * random());
}

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

  constructor(
    load,
    {
      delayMs = 400,
      onError = () => {},
      setTimer = (callback, ms) => setTimeout(callback, ms),
      clearTimer = (timer) => clearTimeout(timer),
    } = {},
  ) {
    this.#load = load;
    this.#delayMs = delayMs;
    this.#onError = onError;
    this.#setTimer = setTimer;
    this.#clearTimer = clearTimer;
  }

  /** Asks for a reload of `wish` soon. */
  request(wish, delayMs = this.#delayMs) {
    this.#wishes.add(wish);
    this.#schedule(delayMs);
  }

  /** Asks for a reload at once, or right after the one under way. */
  requestNow(wish) {
    this.#wishes.add(wish);
    if (this.#timer !== null) this.#clearTimer(this.#timer);
    this.#timer = null;
    this.#schedule(0);
  }

  stop() {
    this.#stopped = true;
    if (this.#timer !== null) this.#clearTimer(this.#timer);
  }

  #schedule(ms) {
    if (this.#stopped || this.#loading || this.#timer !== null) return;
    this.#timer = this.#setTimer(() => this.#run(), ms);
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
    } catch (error) {
      for (const wish of wishes) this.#wishes.add(wish);
      wait = backoffSeconds(this.#failures) * 1000;
      this.#failures += 1;
      if (this.#onError(error) === "give up") this.#wishes.clear();
    } finally {
      this.#loading = false;
      if (this.#wishes.size > 0) this.#schedule(wait);
    }
  }
}

/** Whether a view still shows what the server has, in the words of the page. */
export function liveState({ connected, lostAtMs, everConnected }) {
  if (connected) return { kind: "live", sinceMs: null };
  return everConnected ? { kind: "stale", sinceMs: lostAtMs } : { kind: "connecting", sinceMs: lostAtMs };
}
