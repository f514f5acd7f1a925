/** The frame of a link's page: what it shows, from when, and until when. */

import { documentTitle } from "../alerts.js";
import { formatClock } from "../format.js";
import { liveState } from "../refresh.js";
import { el, setText } from "./dom.js";
import { icon, logo } from "./icons.js";
import { themeButton } from "./shell.js";

/** @type {Intl.DateTimeFormatOptions} */
const MOMENT = { dateStyle: "medium", timeStyle: "short" };

/** A time of the server in this browser's words. */
export const momentWords = (iso) => new Intl.DateTimeFormat(undefined, MOMENT).format(new Date(iso));

/** Builds the top bar; what it answers is what the screens call, as of the page's own frame. */
export function createSharedShell(shared) {
  const isSnapshot = shared.mode === "snapshot";
  const state = el("span", {
    class: `live live-${isSnapshot ? "frozen" : "connecting"}`,
    role: "status",
    data: { testid: "live-state" },
  });
  const words = el("span", {
    text: isSnapshot ? `snapshot of ${momentWords(shared.frozen_at)}` : "connecting",
  });
  state.append(el("span", { class: "live-dot", "aria-hidden": "true" }), words);
  document.getElementById("topbar").replaceChildren(
    el(
      "div",
      { class: "topbar-inner" },
      el("span", { class: "brand" }, logo(), el("span", { text: "collapsewatch" })),
      el(
        "p",
        { class: "shared-title", data: { testid: "shared-title" } },
        icon("link", 14),
        el("strong", { text: shared.title }),
        el("span", { class: "faint", text: `read-only, until ${momentWords(shared.expires_at)}` }),
      ),
      el("div", { class: "topbar-end" }, state, themeButton()),
    ),
  );
  keepSkipLink();
  return {
    setConnection(connection) {
      const { kind, sinceMs } = liveState(connection);
      state.className = `live live-${kind}`;
      setText(
        words,
        kind === "live" ? "live" : kind === "connecting" ? "connecting" : `stale since ${formatClock(sinceMs)}`,
      );
    },
    setEnded() {
      state.className = "live live-stale";
      setText(words, "ended");
      document.title = documentTitle("Link ended", 0);
    },
    setTitle(name, numUrgent) {
      document.title = documentTitle(name, numUrgent);
    },
    setScreen() {},
    setNumOpen() {},
    setServiceAlerts() {},
  };
}

function keepSkipLink() {
  document.getElementById("skip-link").addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("main").focus();
  });
}
