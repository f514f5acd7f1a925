/** Screen: one run. Puts its parts together and keeps them up to date. */

import * as api from "../api.js";
import { openAlerts, urgentCount } from "../alerts.js";
import { ChartView } from "../chart_view.js";
import { Clock } from "../clock.js";
import { scoredScopes } from "../panels.js";
import { runPlotlySoon } from "../plotly_library.js";
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
/** While a run goes on, times beyond the last known step are guessed this long. */
const CLOCK_MS = 10_000;
/** Browsers refuse an address that changes too often. */
const ADDRESS_MS = 300;
/** The stream usually opens sooner and asks for the first load itself. */
const FIRST_LOAD_MS = 300;

/** Mounts the screen; returns what the app calls on events, on reconnects and at the end. */
export function mountRun(host, { route, shell, navigate, metricsInfo }) {
  const data = RunData.of(api, route, { onPart: () => show(), onAsked: runPlotlySoon });
  const charts = new ChartView(route.view);
  charts.selected = route.step;
  const view = { data, siblings: [], ghost: null, ghostId: route.ghost, charts, against: route.against };
  /** The address of what is on screen, with this changed. */
  const hrefOf = (change = {}) =>
    runHref(route.runId, {
      scope: data.wantedScope,
      ghost: view.ghostId,
      earlier: data.showsEarlier ? "" : "hidden",
      scorer: data.scorer,
      more: data.showsMore,
      step: charts.selected,
      against: view.against,
      view: charts,
      ...change,
    });
  const goTo = (change) => navigate(hrefOf(change));
  const address = keptAddress(hrefOf);
  const onMore = (more) => {
    if (more === data.showsMore) return;
    data.showsMore = more;
    address.keep();
    if (more) refresher.requestNow(WISH.all);
  };
  const page = buildPage({ view, goTo, metricsInfo, onView: address.keep, onMore });
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
  const stopAddress = charts.subscribe((change) => {
    if (change === "selected") address.keep();
    if (change === "range") closer.requestNow("stretch");
  });
  /** What is zoomed into comes in full, while the figures show already what is here of it. */
  const closer = new Refresher(
    async () => {
      if (data.summary === null || !(await data.look(charts.range))) return;
      for (const part of page.parts) part.zoomed?.(view);
    },
    { onError: (error) => console.warn("a stretch of steps could not be loaded", error) },
  );
  const refresher = new Refresher(
    async (wishes) => {
      const isFirst = page.root.classList.contains("awaiting");
      await data.load(wishes);
      if (wishes.has(WISH.all)) await loadAround(view);
      await loadGhost(view, wishes);
      await followClock(view);
      page.problem.replaceChildren();
      show();
      if (isFirst && route.chart !== "") leadToChart(page.root, route.chart);
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
    onOpen() {
      page.batch.news(null);
      refresher.requestNow(WISH.all);
    },
    /** Takes another scope, ghost or choice of attempts of the same run without a new page; false for any other address. */
    follow(next) {
      if (next.screen !== "run" || next.runId !== route.runId) return false;
      data.showsEarlier = next.earlier !== "hidden";
      data.setScorer(next.scorer);
      charts.setStyle({ smoothing: next.view.smoothing, log: next.view.log, axis: next.view.axis });
      charts.zoom(next.view.range);
      charts.select(next.step);
      view.against = next.against;
      if (next.chart !== "") leadToChart(page.root, next.chart);
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
      if (event.run_id !== route.runId) return;
      const wish = wishOf(name, event);
      if (name === "metrics") page.batch.news(typeof wish === "number" ? wish : null);
      refresher.request(wish);
    },
    destroy() {
      address.stop();
      stopAddress();
      refresher.stop();
      closer.stop();
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

/** Writes what is on screen into the address, without a new entry of the history. */
function keptAddress(hrefOf) {
  let timer = null;
  const write = () => {
    timer = null;
    window.history.replaceState(null, "", hrefOf());
  };
  return {
    keep: () => (timer ??= setTimeout(write, ADDRESS_MS)),
    stop: () => clearTimeout(timer),
  };
}

function buildPage({ view, goTo, metricsInfo, onView, onMore }) {
  const diagnostics = diagnosticsPart({ metricsInfo });
  const head = headPart({
    onScope: (scope) => goTo({ scope }),
    onScorer: (scorer) => goTo({ scorer }),
    onGhost: (ghost) => goTo({ ghost }),
    onEarlier: (shown) => goTo({ earlier: shown ? "" : "hidden" }),
    onBacklog: () => leadTo(diagnostics.root),
    scopesOf: (summary) => scoredScopes(summary.scopes),
    compareHref,
  });
  const problem = el("div");
  const batch = batchPart({
    api,
    runId: view.data.runId,
    charts: view.charts,
    subject: () => subjectOf(view.data),
    onAgainst: (against) => goTo({ against }),
  });
  const parts = [
    head,
    verdictPart(),
    alertsPart(),
    chartsPart({
      metricsInfo,
      data: view.data,
      charts: view.charts,
      subject: () => subjectOf(view.data),
      onView,
      onMore,
    }),
    batch,
    diagnostics,
  ];
  const root = el(
    "div",
    { class: "run-page awaiting", data: { testid: "run-page" } },
    parts.map((part) => part.root),
  );
  return { root, parts, batch, problem };
}

/** Whose figure it is, for pictures and file names. */
const subjectOf = ({ summary, scope }) => [summary.name, scope.replace(/_/g, " ")];

/** Brings the figure of a link into view. */
function leadToChart(page, id) {
  const figure = page.querySelector(`[data-testid="figure-${CSS.escape(id)}"]`);
  if (figure !== null) leadTo(figure);
}

/** Brings a part into view and the keyboard with it. */
function leadTo(part) {
  part.setAttribute("tabindex", "-1");
  part.focus({ preventScroll: true });
  part.scrollIntoView();
}

/** Other runs of the project, for the ghost and the comparison, and when the steps were. */
async function loadAround(view) {
  const { project, run_id: runId } = view.data.summary;
  const [runs] = await Promise.all([api.getRuns(project), readClock(view)]);
  view.siblings = runs.filter((run) => run.run_id !== runId);
}

/** Where times are the axis they go on with the run, though not with every step. */
async function followClock(view) {
  const { charts, data, clock } = view;
  if (!charts.onTime || Date.now() - view.clockAt < CLOCK_MS) return;
  const last = clock.steps[clock.steps.length - 1] ?? -1;
  if ((data.stepRange()?.[1] ?? -1) > last) await readClock(view);
}

async function readClock(view) {
  view.clockAt = Date.now();
  view.clock = await loadClock(view.data.runId);
  const times = view.clock.times.map((seconds) => seconds * 1000);
  view.charts.setClock(new Clock({ steps: view.clock.steps, times }), view.clock.checkpoints);
}

/** A page that may not know when the steps were shows steps. */
async function loadClock(runId) {
  try {
    return await api.getClock(runId);
  } catch (error) {
    if (error.status !== 404) throw error;
    return { steps: [], times: [], checkpoints: [] };
  }
}

async function loadGhost(view, wishes) {
  if (view.ghostId === "") return;
  if (view.ghost !== null && !wishes.has("ghost") && !wishes.has(WISH.all)) return;
  const sibling = view.siblings.find((run) => run.run_id === view.ghostId);
  if (sibling === undefined) return;
  const trajectory = await api.getTrajectory(view.ghostId, { scope: view.data.scope });
  view.ghost = { name: sibling.name, points: trajectory.points };
}
