/** Screens that only links have: the runs of a link, and the word that it is over. */

import { getRuns } from "../api.js";
import { formatStep, isNumber } from "../format.js";
import { Refresher } from "../refresh.js";
import { runHref, compareHref } from "../routes.js";
import { notice, regimeBadge, sparkline, stateMark } from "./components.js";
import { el, rerender } from "./dom.js";

/** Says why a link shows nothing, and what to do. */
export function endedCard(error) {
  const isOver = error.status === 404 || error.status === 410;
  return el(
    "section",
    { class: "card empty-card", data: { testid: "shared-ended" } },
    el("h1", { text: isOver ? "This link shows nothing any more" : "This link cannot be opened now" }),
    el("p", {
      text: isOver
        ? `The server says: ${error.message}. Ask whoever sent it for a new one.`
        : `${error.message}. Load the page again in a while.`,
    }),
  );
}

/** Mounts the list of the runs that the link shows. */
export function mountSharedRuns(host, { shared, shell }) {
  const list = el("ul", { class: "shared-runs", data: { testid: "shared-runs" } });
  const problem = el("div");
  const compare =
    shared.runs.length > 1 && shared.kind === "comparison"
      ? el("a", { class: "button", href: compareHref(shared.runs.map((run) => run.run_id)), text: "Compare" })
      : null;
  host.replaceChildren(
    el("div", { class: "page-head" }, el("h1", { text: shared.title }), compare),
    problem,
    list,
  );
  shell.setTitle(shared.title, 0);
  const refresher = new Refresher(
    async () => {
      const runs = await getRuns();
      problem.replaceChildren();
      rerender(list, JSON.stringify(runs), () => runs.map(runItem));
    },
    {
      onError: (error) =>
        problem.replaceChildren(
          notice("bad", el("p", { text: `The runs could not be loaded: ${error.message}. Trying again.` })),
        ),
    },
  );
  refresher.requestNow("runs");
  return {
    follow: (next) => next.screen === "runs",
    onOpen: () => refresher.requestNow("runs"),
    onEvent: () => refresher.request("runs"),
    destroy: () => refresher.stop(),
  };
}

function runItem(run) {
  return el(
    "li",
    { class: "card shared-run" },
    el("a", { class: "shared-run-name", href: runHref(run.run_id), text: run.name }),
    stateMark(run.state),
    run.regime === null ? null : regimeBadge(run.regime.regime),
    sparkline(run.sparkline),
    el("span", { class: "faint", text: isNumber(run.last_step) ? `step ${formatStep(run.last_step)}` : "" }),
  );
}
