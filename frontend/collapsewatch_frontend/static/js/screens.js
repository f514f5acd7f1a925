/** The screens of the page. What one needs to run comes when it is gone to, or when nothing else is left to do. */

/** @type {Record<string, () => Promise<Function>>} */
export const SCREENS = {
  runs: async () => (await import("./views/runs.js")).mountRuns,
  run: async () => (await import("./views/run.js")).mountRun,
  rollouts: async () => (await import("./views/rollouts.js")).mountRollouts,
  compare: async () => (await import("./views/compare.js")).mountCompare,
  alerts: async () => (await import("./views/alerts.js")).mountAlerts,
  alert: async () => (await import("./views/alert.js")).mountAlert,
  rules: async () => (await import("./views/rules.js")).mountRules,
  channels: async () => (await import("./views/channels.js")).mountChannels,
  shares: async () => (await import("./views/shares.js")).mountShares,
  settings: async () => (await import("./views/settings.js")).mountSettings,
  people: async () => (await import("./views/people.js")).mountPeople,
  keys: async () => (await import("./views/keys.js")).mountKeys,
  retention: async () => (await import("./views/retention.js")).mountRetention,
  audit: async () => (await import("./views/audit.js")).mountAudit,
};

/** Screens by name, each loaded once. */
export class Screens {
  #loads;
  /** @type {Map<string, Function>} */
  #mounts = new Map();
  /** @type {Map<string, Promise<void>>} */
  #coming = new Map();

  constructor(loads = SCREENS) {
    this.#loads = loads;
  }

  has(name) {
    return Object.hasOwn(this.#loads, name);
  }

  /** The function that shows the screen; undefined until it is loaded. */
  mountOf(name) {
    return this.#mounts.get(name);
  }

  /** Loads the screen, unless it is here or on its way; rejects when it does not come, and may be asked again. */
  load(name) {
    const known = this.#coming.get(name);
    if (known !== undefined) return known;
    const coming = this.#loads[name]().then(
      (mount) => {
        this.#mounts.set(name, mount);
      },
      (error) => {
        this.#coming.delete(name);
        throw error;
      },
    );
    this.#coming.set(name, coming);
    return coming;
  }

  /** Loads all that are not here, one after another. What does not come is asked for again when it is gone to. */
  async loadAll() {
    for (const name of Object.keys(this.#loads)) await this.load(name).catch(() => {});
  }
}
