/** A part of the settings as a screen: its head and tabs, what it loads, and what it says when that fails. */

import { Refresher } from "../refresh.js";
import { notice } from "./components.js";
import { el } from "./dom.js";
import { settingsTabs } from "./settings_tabs.js";

const SLOW_MS = 15_000;

/**
 * Mounts the screen; returns what the app calls. `load()` reads what `update(found)` shows; `follow(route)`
 * takes another address of the same screen. `reload()` of what is answered reads anew at once.
 * @param {HTMLElement} host
 * @param {Record<string, any>} screen
 */
export function mountSettingsPart(host, { shell, id, title, sub, body, load, update, follow }) {
  const problem = el("div");
  const loading = el("p", { class: "loading", text: "Loading…" });
  body.hidden = true;
  host.replaceChildren(
    el(
      "div",
      { class: "settings-part", data: { testid: `${id}-page` } },
      el(
        "div",
        { class: "page-head" },
        el("div", {}, el("h1", { text: "Settings" }), el("p", { class: "page-sub", text: sub })),
      ),
      settingsTabs(id),
      problem,
      loading,
      body,
    ),
  );
  shell.setTitle(title, 0);
  const refresher = new Refresher(
    async () => {
      const found = await load();
      problem.replaceChildren();
      loading.hidden = true;
      body.hidden = false;
      update(found);
    },
    {
      onError: (error) => {
        loading.hidden = true;
        body.hidden = true;
        const isFinal = error.status === 403;
        const words = isFinal ? "This is not for you" : "It could not be loaded";
        problem.replaceChildren(
          notice("bad", el("p", { text: `${words}: ${error.message}.${isFinal ? "" : " Trying again."}` })),
        );
        return isFinal ? "give up" : "go on";
      },
    },
  );
  const timer = setInterval(() => refresher.request(id), SLOW_MS);
  refresher.requestNow(id);
  return {
    reload: () => refresher.requestNow(id),
    follow(next) {
      if (next.screen !== id || follow === undefined) return false;
      follow(next);
      refresher.requestNow(id);
      return true;
    },
    onOpen: () => refresher.requestNow(id),
    onEvent() {},
    destroy() {
      refresher.stop();
      clearInterval(timer);
    },
  };
}
