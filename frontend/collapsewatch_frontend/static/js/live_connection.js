/** One event stream, kept open for ever: it reconnects with growing pauses and goes on where it was. Pure. */

import { backoffSeconds } from "./refresh.js";

const PROBE_MS = 15_000;
export const EVENTS = ["run", "batch", "metrics", "alert", "alert_change", "job", "worker", "service"];

/**
 * What it needs of the world: `open(lastEventId)` an EventSource, `ask()` whether the server answers. What it
 * tells: `onOpen({fresh})` on every (re)connect, fresh when what came before may have been missed;
 * `onEvent({name, id, data})`, the data as text; `onState({connected, lostAtMs})`.
 */
export class LiveConnection {
  #world;
  #listeners;
  #source = null;
  #attempt = 0;
  #timer = null;
  #probe;
  #lastSeenMs;
  #connected = false;
  /** @type {number | null} Id of the last event; null before any is known. */
  lastEventId;

  constructor(world, listeners, lastEventId = null) {
    this.#world = {
      setTimer: (callback, ms) => setTimeout(callback, ms),
      clearTimer: (timer) => clearTimeout(timer),
      setRepeated: (callback, ms) => setInterval(callback, ms),
      clearRepeated: (timer) => clearInterval(timer),
      now: () => Date.now(),
      ...world,
    };
    this.#listeners = listeners;
    this.lastEventId = lastEventId;
    this.#lastSeenMs = this.#world.now();
    this.#probe = this.#world.setRepeated(() => this.probe(), PROBE_MS);
  }

  get state() {
    return { connected: this.#connected, lostAtMs: this.#connected ? null : this.#lastSeenMs };
  }

  start() {
    this.#world.clearTimer(this.#timer);
    this.#timer = null;
    this.#source?.close();
    const source = this.#world.open(this.lastEventId);
    this.#source = source;
    const mine = (handle) => (event) => {
      if (source === this.#source) handle(event);
    };
    let fresh = false;
    source.addEventListener(
      "open",
      mine(() => {
        // What opens anew says hello with its first bytes, and then everything has to be loaded.
        fresh = this.lastEventId === null;
        this.#open(fresh);
      }),
    );
    source.addEventListener(
      "hello",
      mine((event) => {
        this.#seen();
        this.lastEventId = Number(event.lastEventId);
        if (!fresh) this.#listeners.onOpen({ fresh: true });
      }),
    );
    source.addEventListener("error", mine(() => this.#lose()));
    for (const name of EVENTS) source.addEventListener(name, mine((event) => this.#take(name, event)));
  }

  /** Ends it for good. */
  stop() {
    this.#world.clearTimer(this.#timer);
    this.#world.clearRepeated(this.#probe);
    this.#source?.close();
    this.#source = null;
  }

  /** Tries again at once, when there is reason to hope. */
  nudge() {
    if (!this.#connected) this.start();
  }

  /** A dead connection can look open for minutes, so silence is checked with a question. */
  async probe({ now = false } = {}) {
    if (!this.#connected) return;
    if (!now && this.#world.now() - this.#lastSeenMs < PROBE_MS) return;
    if (await this.#world.ask()) this.#seen();
    else if (this.#connected) this.#lose();
  }

  #take(name, event) {
    this.#seen();
    this.lastEventId = Number(event.lastEventId);
    this.#listeners.onEvent({ name, id: this.lastEventId, data: event.data });
  }

  #seen() {
    this.#lastSeenMs = this.#world.now();
  }

  #open(fresh) {
    this.#attempt = 0;
    this.#connected = true;
    this.#seen();
    this.#listeners.onState(this.state);
    this.#listeners.onOpen({ fresh });
  }

  #lose() {
    this.#source?.close();
    this.#source = null;
    const isNews = this.#connected || this.#attempt === 0;
    this.#connected = false;
    if (isNews) this.#listeners.onState(this.state);
    if (this.#timer !== null) return;
    this.#timer = this.#world.setTimer(() => this.start(), backoffSeconds(this.#attempt) * 1000);
    this.#attempt += 1;
  }
}
