/** Screen: the links by which runs are shown to others, and how to end them. */

import { getShares, revokeShare } from "../api.js";
import { Refresher } from "../refresh.js";
import { compareHref, runHref } from "../routes.js";
import { linkWords } from "../shared.js";
import { settingsTabs } from "./settings_tabs.js";
import { notice } from "./components.js";
import { el, KeyedList, setAttribute, setText } from "./dom.js";
import { button, confirmLoss } from "./forms.js";
import { momentWords } from "./shared_shell.js";
import { showNote } from "./toasts.js";

const SLOW_MS = 15_000;
const KINDS = { run: "Run", comparison: "Comparison", chart: "Chart" };

/** Mounts the screen; returns what the app calls on events, on reconnects and at the end. */
export function mountShares(host, { shell }) {
  const problem = el("div");
  const loading = el("p", { class: "loading", text: "Loading…" });
  const empty = el(
    "div",
    { class: "card empty-card", hidden: true, data: { testid: "no-shares" } },
    el("p", { text: "No links yet. “Share” on a run, a comparison or a chart makes one." }),
  );
  const list = el("ul", { class: "rule-list", data: { testid: "share-list" } });
  const cards = new KeyedList(list, {
    keyOf: (share) => share.share_id,
    create: () => shareCard({ reload: () => refresher.requestNow("shares") }),
  });
  host.replaceChildren(
    el(
      "div",
      { class: "shares-page", data: { testid: "shares-page" } },
      el(
        "div",
        { class: "page-head" },
        el(
          "div",
          {},
          el("h1", { text: "Settings" }),
          el("p", { class: "page-sub", text: "What is shown to others, and until when" }),
        ),
      ),
      settingsTabs("shares"),
      problem,
      loading,
      empty,
      list,
    ),
  );
  shell.setTitle("Shared links", 0);
  const refresher = new Refresher(
    async () => {
      const shares = await getShares();
      problem.replaceChildren();
      loading.hidden = true;
      empty.hidden = shares.length > 0;
      list.hidden = shares.length === 0;
      cards.update(shares);
    },
    {
      onError: (error) => {
        loading.hidden = true;
        problem.replaceChildren(
          notice("bad", el("p", { text: `The links could not be loaded: ${error.message}. Trying again.` })),
        );
      },
    },
  );
  const timer = setInterval(() => refresher.request("shares"), SLOW_MS);
  refresher.requestNow("shares");
  return {
    follow: (next) => next.screen === "shares",
    onOpen: () => refresher.requestNow("shares"),
    onEvent() {},
    destroy() {
      refresher.stop();
      clearInterval(timer);
    },
  };
}

function shareCard({ reload }) {
  let share = null;
  const title = el("a", { class: "rule-name" });
  const about = el("p", { class: "faint", data: { testid: "share-about" } });
  const runs = el("p", { class: "page-sub" });
  const end = button("End link", {
    small: true,
    data: { testid: "share-end" },
    on: {
      click: () =>
        confirmLoss({
          title: `End the link “${share.title}”?`,
          text: "Whoever has it can read nothing any more, from the next moment on. A snapshot is removed.",
          confirm: "End link",
          action: async () => {
            await revokeShare(share.share_id);
            showNote("The link is ended.");
            reload();
          },
        }),
    },
  });
  const root = el(
    "li",
    { class: "card share-card", data: { testid: "share-item" } },
    el("div", { class: "share-text" }, title, runs, about),
    end,
  );
  return {
    root,
    update(next) {
      share = next;
      setText(title, next.title);
      setAttribute(title, "href", hrefOf(next));
      setText(runs, runWords(next));
      setText(about, linkWords(next, momentWords));
      root.classList.toggle("is-over", next.status !== "good");
      end.hidden = next.status !== "good";
    },
  };
}

/** The screen in this page that the link shows; none when what it showed is gone. */
function hrefOf({ runs, view }) {
  if (runs.length === 0) return null;
  if (view !== "#/") return view;
  return runs.length === 1 ? runHref(runs[0].run_id) : compareHref(runs.map((run) => run.run_id));
}

function runWords({ kind, runs, with_rollouts: withRollouts }) {
  const names = runs.length === 0 ? "deleted" : runs.map((run) => run.name).join(", ");
  return `${KINDS[kind]}: ${names}${withRollouts ? ", with rollouts" : ""}`;
}
