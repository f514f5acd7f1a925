/** One event stream for all tabs of a browser, which allows a server no more than six connections. Pure. */

import { LiveConnection } from "./live_connection.js";

/** For tabs that come while others are there already: what they have missed since they were sent. */
const MOST_KEPT = 500;
/** A tab that is closed may not say so; those that live say it every minute, hidden or not. */
export const SIGN_MS = 30_000;
const GONE_MS = 5 * 60_000;

/**
 * Tabs are ports (`postMessage`). A tab says `{kind: "join", lastEventId}`, `{kind: "sign"}`, `{kind: "leave"}`,
 * `{kind: "nudge"}` or `{kind: "probe"}`, and is told `{kind: "state", connected, lostAtMs}`,
 * `{kind: "open", fresh}` and `{kind: "event", name, id, data}`.
 */
export class LiveHub {
  #world;
  #connection = null;
  #tabs = new Map();
  #kept = [];
  /** Everything after this event is in `#kept`; null while nothing is known. */
  #keptAfter = null;

  constructor(world) {
    this.#world = { now: () => Date.now(), ...world };
  }

  get numTabs() {
    return this.#tabs.size;
  }

  /** Takes what a tab says. */
  hear(tab, message) {
    if (message.kind === "leave") {
      this.#forget(tab);
      return;
    }
    if (message.kind === "join" || !this.#tabs.has(tab)) this.#join(tab, message.lastEventId ?? null);
    else this.#tabs.get(tab).seenMs = this.#world.now();
    if (message.kind === "nudge") this.#connection?.nudge();
    if (message.kind === "probe") this.#connection?.probe({ now: true });
    this.#dropSilent();
  }

  #join(tab, lastEventId) {
    this.#tabs.set(tab, { seenMs: this.#world.now(), lastEventId });
    if (this.#connection === null) {
      this.#keptAfter = lastEventId;
      this.#connection = new LiveConnection(
        this.#world,
        {
          onOpen: ({ fresh }) => this.#onOpen(fresh),
          onEvent: (event) => this.#onEvent(event),
          onState: (state) => this.#tell({ kind: "state", ...state }),
        },
        lastEventId,
      );
      this.#connection.start();
      return;
    }
    tab.postMessage({ kind: "state", ...this.#connection.state });
    if (this.#connection.state.connected) this.#catchUp(tab);
  }

  /** Tells a tab what it has missed, or that it has to load everything. */
  #catchUp(tab) {
    const { lastEventId } = this.#tabs.get(tab);
    this.#tabs.get(tab).lastEventId = undefined;
    const knowsAll = lastEventId !== null && this.#keptAfter !== null && lastEventId >= this.#keptAfter;
    tab.postMessage({ kind: "open", fresh: !knowsAll });
    if (!knowsAll) return;
    for (const event of this.#kept) if (event.id > lastEventId) tab.postMessage({ kind: "event", ...event });
  }

  #onOpen(fresh) {
    if (fresh) {
      this.#kept = [];
      this.#keptAfter = this.#connection.lastEventId;
    }
    for (const [tab, { lastEventId }] of this.#tabs) {
      const isNew = lastEventId !== undefined;
      if (isNew && !fresh) this.#catchUp(tab);
      else tab.postMessage({ kind: "open", fresh });
      this.#tabs.get(tab).lastEventId = undefined;
    }
  }

  #onEvent(event) {
    this.#keptAfter ??= event.id - 1;
    this.#kept.push(event);
    if (this.#kept.length > MOST_KEPT) this.#keptAfter = this.#kept.shift().id;
    this.#tell({ kind: "event", ...event });
  }

  #tell(message) {
    for (const tab of this.#tabs.keys()) tab.postMessage(message);
  }

  #dropSilent() {
    const now = this.#world.now();
    for (const [tab, { seenMs }] of this.#tabs) if (now - seenMs > GONE_MS) this.#forget(tab);
  }

  #forget(tab) {
    this.#tabs.delete(tab);
    if (this.#tabs.size > 0) return;
    this.#connection?.stop();
    this.#connection = null;
    this.#kept = [];
  }
}
