/** Screen: one run. Puts its parts together and keeps them up to date. */

import * as api from "../api.js";
import { openAlerts, urgentCount } from "../alerts.js";
import { scoredScopes } from "../panels.js";
import { Refresher } from "../refresh.js";
import { compareHref, runHref } from "../routes.js";
import { RunData, WISH } from "../run_data.js";
import { notice } from "./components.js";
import { el } from "./dom.js";
import { notFound } from "./not_found.js";
import { alertsPart } from "./run_alerts.js";
import { batchPart } from "./run_batch.js";
import { chartsPart } from "./run_charts.js";
import { diagnosticsPart } from "./run_diagnostics.js";
import { headPart } from "./run_head.js";
import { verdictPart } from "./run_verdict.js";

const TICK_MS = 1_000;
/** The stream usually opens sooner and asks for the first load itself. */
const FIRST_LOAD_MS = 300;

/** Mounts the screen; returns what the app calls on events, on reconnects and at the end. */
export function mountRun(host, { route, shell, navigate, metricsInfo }) {
  const data = new RunData(api, route.runId, { scope: route.scope, withEarlier: true });
  data.showsEarlier = route.earlier !== "hidden";
  const view = { data, siblings: [], ghost: null, ghostId: route.ghost };
  const goTo = (change) =>
    navigate(
      runHref(route.runId, {
        scope: data.wantedScope,
        ghost: view.ghostId,
        earlier: data.showsEarlier ? "" : "hidden",
        ...change,
      }),
    );
  const page = buildPage({ goTo, metricsInfo });
  host.replaceChildren(page.problem, page.root);

  const tickParts = () => {
    for (const part of page.parts) part.tick?.(view);
  };
  const show = () => {
    if (data.summary === null) return;
    for (const part of page.parts) part.update(view);
    tickParts();
    page.root.classList.remove("awaiting");
    shell.setTitle(data.summary.name, urgentCount(countOpen(data.alerts)));
  };
  const refresher = new Refresher(
    async (wishes) => {
      await data.load(wishes);
      if (wishes.has(WISH.all)) await loadSiblings(view);
      await loadGhost(view, wishes);
      page.problem.replaceChildren();
      show();
    },
    {
      onError: (error) => {
        if (error.status === 404) {
          shell.setTitle("Not found", 0);
          host.replaceChildren(notFound(`There is no run with the id “${route.runId}”.`));
          return "give up";
        }
        page.problem.replaceChildren(
          notice("bad", el("p", { text: `The run could not be loaded: ${error.message}. Trying again.` })),
        );
        return "go on";
      },
    },
  );
  const tick = setInterval(tickParts, TICK_MS);
  refresher.request(WISH.all, FIRST_LOAD_MS);
  return {
    onOpen: () => refresher.requestNow(WISH.all),
    /** Takes another scope, ghost or choice of attempts of the same run without a new page; false for any other address. */
    follow(next) {
      if (next.screen !== "run" || next.runId !== route.runId) return false;
      data.showsEarlier = next.earlier !== "hidden";
      if (next.scope === data.wantedScope && next.ghost === view.ghostId) {
        show();
        return true;
      }
      data.wantedScope = next.scope;
      view.ghostId = next.ghost;
      view.ghost = null;
      refresher.requestNow(WISH.all);
      return true;
    },
    onEvent: (name, event) => {
      if (event.run_id === view.ghostId && name === "metrics") refresher.request("ghost");
      if (event.run_id === route.runId) refresher.request(wishOf(name, event));
    },
    destroy() {
      refresher.stop();
      clearInterval(tick);
      for (const part of page.parts) part.destroy?.();
    },
  };
}

function wishOf(name, event) {
  if (name === "alert") return WISH.alerts;
  if (name === "metrics") return Number.isInteger(event.step) ? event.step : WISH.all;
  return WISH.summary;
}

function countOpen(alerts) {
  const counts = {};
  for (const alert of openAlerts(alerts)) counts[alert.severity] = (counts[alert.severity] ?? 0) + 1;
  return counts;
}

function buildPage({ goTo, metricsInfo }) {
  const diagnostics = diagnosticsPart({ metricsInfo });
  const head = headPart({
    onScope: (scope) => goTo({ scope }),
    onGhost: (ghost) => goTo({ ghost }),
    onEarlier: (shown) => goTo({ earlier: shown ? "" : "hidden" }),
    onBacklog: () => leadTo(diagnostics.root),
    scopesOf: (summary) => scoredScopes(summary.scopes),
    compareHref,
  });
  const problem = el("div");
  const parts = [
    head,
    verdictPart(),
    alertsPart(),
    chartsPart({ metricsInfo }),
    batchPart({ metricsInfo }),
    diagnostics,
  ];
  const root = el(
    "div",
    { class: "run-page awaiting", data: { testid: "run-page" } },
    parts.map((part) => part.root),
  );
  return { root, parts, problem };
}

/** Brings a part into view and the keyboard with it. */
function leadTo(part) {
  part.setAttribute("tabindex", "-1");
  part.focus({ preventScroll: true });
  part.scrollIntoView();
}

/** Other runs of the project, for the ghost and the comparison. */
async function loadSiblings(view) {
  const { project, run_id: runId } = view.data.summary;
  view.siblings = (await api.getRuns(project)).filter((run) => run.run_id !== runId);
}

async function loadGhost(view, wishes) {
  if (view.ghostId === "") return;
  if (view.ghost !== null && !wishes.has("ghost") && !wishes.has(WISH.all)) return;
  const sibling = view.siblings.find((run) => run.run_id === view.ghostId);
  if (sibling === undefined) return;
  const trajectory = await api.getTrajectory(view.ghostId, { scope: view.data.scope });
  view.ghost = { name: sibling.name, points: trajectory.points };
}
