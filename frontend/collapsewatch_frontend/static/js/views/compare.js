/** Screen: several runs laid over one another. */

import { mayInAll } from "../access.js";
import * as api from "../api.js";
import { ChartView } from "../chart_view.js";
import { MAX_RUNS, addedFigure, configRows } from "../compare.js";
import { ALL, CompareData, choiceOf, newsOf } from "../compare_data.js";
import { drawnState } from "../compare_drawn.js";
import { groupingKeys } from "../compare_table.js";
import { plural } from "../format.js";
import { runPlotlySoon } from "../plotly_library.js";
import { Refresher } from "../refresh.js";
import { compareHref, runsHref } from "../routes.js";
import { runStyle } from "../run_styles.js";
import { isShared } from "../shared.js";
import { compareBar } from "./compare_bar.js";
import { comparisonControls } from "./compare_controls.js";
import { comparedCharts } from "./compare_charts.js";
import { comparedDifferences } from "./compare_differences.js";
import { runPicker } from "./compare_picker.js";
import { endTable } from "./compare_table.js";
import { notice } from "./components.js";
import { el, rerender, setText } from "./dom.js";
import { exportMenu } from "./export_menu.js";
import { icon } from "./icons.js";
import { notFound } from "./not_found.js";
import { comparedShare, shareButton } from "./share_dialog.js";

/** The stream usually opens sooner and asks for the first load itself. */
const FIRST_LOAD_MS = 300;
/** How long ago a silent run was seen goes on without an event. */
const AGE_TICK_MS = 5_000;
/** A zoom that goes on asks for nothing yet. */
const ZOOM_REST_MS = 250;
/** Many runs that go on would keep the page loading. */
const delayFor = (numRuns) => (numRuns <= 4 ? 800 : 2500);

export function mountCompare(host, { route, shell, metricsInfo, navigate }) {
  shell.setTitle("Compare", 0);
  if (route.runIds.length === 0) return mountPicker(host, navigate);
  const view = new ChartView(route.view);
  const data = CompareData.of(api, route, { onAsked: runPlotlySoon });
  const { runIds } = data;
  const state = { data, view, emphasis: null, chart: route.chart, numGiven: route.runIds.length };
  const refresher = new Refresher(
    async (wishes) => {
      await data.load(wishes, show);
      await data.loadDetail(view.range);
      page.problem.replaceChildren();
      show();
    },
    { delayMs: delayFor(runIds.length), onError: (error) => page.tellProblem(error) },
  );
  const hrefOf = () => compareHref(runIds, { ...data.choice, view, chart: state.chart });
  /** Takes a change of the choice: the address holds it at once, and what it needs is loaded. */
  function change(patch) {
    const axisChanged = patch.axis !== undefined && patch.axis !== data.choice.axis;
    data.choice = { ...data.choice, ...patch };
    if (axisChanged) view.zoom(null);
    window.history.replaceState(null, "", hrefOf());
    show();
    if (["scope", "axis", "groupBy", "added"].some((name) => name in patch)) refresher.requestNow("choice");
  }
  const page = buildPage({ state, change, metricsInfo, navigate });
  host.replaceChildren(page.problem, page.root);
  function show() {
    if (data.runs === null) return;
    if (data.runs.length === 0) {
      host.replaceChildren(
        notFound("None of these runs is there: they were deleted, or the link is of another service."),
      );
      return;
    }
    page.update();
  }
  let zoomTimer = null;
  const stopView = view.subscribe((kind) => {
    if (kind !== "range" && kind !== "style") return;
    window.history.replaceState(null, "", hrefOf());
    if (kind !== "range") return;
    clearTimeout(zoomTimer);
    zoomTimer = setTimeout(() => refresher.requestNow("zoom"), ZOOM_REST_MS);
  });
  const tick = setInterval(() => page.showTable(), AGE_TICK_MS);
  refresher.request(ALL, FIRST_LOAD_MS);
  return {
    /** Takes another choice for the same runs without a new page. */
    follow(next) {
      if (next.screen !== "compare" || next.runIds.join() !== route.runIds.join()) return false;
      view.setStyle({ smoothing: next.view.smoothing, log: next.view.log });
      view.zoom(next.view.range);
      change(choiceOf(next));
      return true;
    },
    onOpen: () => refresher.requestNow(ALL),
    onEvent: (_, event) => {
      if (runIds.includes(event.run_id)) refresher.request(newsOf(event.run_id));
    },
    destroy() {
      refresher.stop();
      stopView();
      clearInterval(tick);
      clearTimeout(zoomTimer);
      page.destroy();
    },
  };
}

function mountPicker(host, navigate) {
  const picker = runPicker({
    load: () => api.getRuns(),
    picked: [],
    onPick: (picked) => navigate(compareHref(picked)),
    isStart: true,
  });
  host.replaceChildren(
    el(
      "div",
      { class: "compare-page" },
      el(
        "div",
        { class: "page-head" },
        el(
          "div",
          {},
          el("h1", { text: "Compare runs" }),
          el("p", {
            class: "page-sub",
            text: `Pick two to ${MAX_RUNS} runs; seeds of one experiment can be averaged.`,
          }),
        ),
      ),
      picker.root,
    ),
  );
  picker.open();
  return { follow: () => false, onOpen: () => picker.open(), onEvent() {}, destroy() {} };
}

function buildPage({ state, change, metricsInfo, navigate }) {
  const { data, view } = state;
  const isFixed = isShared();
  const problem = el("div");
  const files = exportMenu();
  const share = shareButton(() => {
    const runIds = data.runs.map(({ run_id: runId }) => runId);
    return { kind: "comparison", runIds, title: data.runs.map(({ name }) => name).join(", ") };
  });
  const notices = el("div", { data: { testid: "compare-notices" } });
  const sub = el("p", { class: "page-sub", role: "status" });
  const controls = comparisonControls({ change });
  const bar = compareBar({ state, change, show: () => update() });
  const goTo = (runIds) => navigate(compareHref(runIds, { ...data.choice, view }));
  const table = endTable({
    metricsInfo,
    onSort: (sort) => change({ sort }),
    onRemove: isFixed ? null : (runId) => goTo(data.runIds.filter((each) => each !== runId)),
  });
  const charts = comparedCharts({
    metricsInfo,
    view,
    figures: data.figures(),
    isFixed,
    shareOf: isFixed ? null : (figure, title) => comparedShare(figure, title, data),
    onAdd: (key) => change({ added: [...data.choice.added, key] }),
    onRemove: (key) => change({ added: data.choice.added.filter((each) => each !== key) }),
  });
  const differences = comparedDifferences({ onSettings: (settings) => change({ settings }) });
  const picker = runPicker({ load: () => api.getRuns(), picked: data.runIds, onPick: goTo });
  const add = addButton(picker);
  add.hidden = isFixed;
  const root = el(
    "div",
    { class: "compare-page awaiting", data: { testid: "compare-page" } },
    el(
      "div",
      { class: "page-head" },
      el("div", {}, crumbs(isFixed), el("h1", { text: "Compare runs" }), sub),
      el("div", { class: "controls" }, controls.root, add, files.root, share),
    ),
    picker.root,
    notices,
    differences.unlike,
    table.root,
    bar.root,
    charts.root,
    differences.scoring,
    differences.settings,
  );
  function showTable(styles = null) {
    const { runs, scope, choice, shown } = data;
    if (runs === null || runs.length === 0) return;
    share.hidden = !mayInAll("run.share", runs.map(({ project }) => project));
    table.update({
      runs,
      scope,
      groups: shown.groups.map((group, i) => ({ ...group, style: runStyle(i) })),
      styles: styles ?? drawnState(state).styles,
      sort: choice.sort,
      added: choice.added.map(addedFigure).filter((figure) => figure !== null),
    });
  }
  function update() {
    const drawn = drawnState(state);
    const { runs, scope, choice } = data;
    root.classList.remove("awaiting");
    files.update(
      runs.map((run) => run.run_id),
      scope,
    );
    setText(sub, subWords(runs));
    controls.update({
      scopes: [...new Set(runs.flatMap((run) => run.scopes))],
      scope,
      choice,
      keys: groupingKeys(configRows(runs.map((run) => run.config))),
      hasGroups: data.shown.groups.length > 0,
    });
    bar.update(drawn);
    showNotices(notices, state);
    showTable(drawn.styles);
    charts.update(drawn);
    differences.update({ runs, scope, styles: drawn.styles, choice });
    leadToChart(root, state);
  }
  return {
    root,
    problem,
    update,
    /** How long ago runs were seen, without drawing anything again. */
    showTable,
    tellProblem(error) {
      if (isRefused(error)) {
        problem.replaceChildren(
          notice("bad", el("p", { text: `This address cannot be compared: ${error.message}.` })),
        );
        return "give up";
      }
      problem.replaceChildren(
        notice("bad", el("p", { text: `The runs could not be loaded: ${error.message}. Trying again.` })),
      );
      return "go on";
    },
    destroy() {
      bar.destroy();
      charts.destroy();
    },
  };
}

/** Whether asking again is of no use: what the address asks for is wrong, or not shown here. */
const isRefused = ({ status }) => [400, 403, 404, 410, 422].includes(status);

function crumbs(isFixed) {
  return el(
    "nav",
    { class: "crumbs", "aria-label": "Breadcrumb", hidden: isFixed },
    el("a", { href: runsHref(), text: "Runs" }),
  );
}

function addButton(picker) {
  const button = el(
    "button",
    { class: "button", type: "button", "aria-expanded": "false", data: { testid: "compare-more" } },
    icon("compare"),
    el("span", { text: "Add runs" }),
  );
  button.addEventListener("click", () => {
    if (picker.isOpen) picker.close();
    else picker.open();
    button.setAttribute("aria-expanded", String(picker.isOpen));
  });
  return button;
}

function subWords(runs) {
  const projects = new Set(runs.map((run) => run.project));
  const running = runs.filter((run) => run.state === "running").length;
  const of = projects.size > 1 ? ` of ${plural(projects.size, "project")}` : "";
  return `${plural(runs.length, "run")}${of}${running > 0 ? ` · ${running} running` : ""}`;
}

function showNotices(host, { data, numGiven }) {
  const { runs, missing, shown } = data;
  const left = numGiven - data.runIds.length;
  const unplaced = runs.filter((run) => shown.unplaced[run.run_id] !== undefined);
  const texts = [
    left > 0
      ? `At most ${MAX_RUNS} runs are compared at once; ${plural(left, "run")} of the address are left out.`
      : "",
    missing.length > 0
      ? `${plural(missing.length, "run")} of the address ${missing.length === 1 ? "is" : "are"} not there any more: ${missing.join(", ")}.`
      : "",
    unplaced.length > 0
      ? `Not on this axis: ${unplaced.map((run) => run.name).join(", ")}; ${shown.unplaced[unplaced[0].run_id]}.`
      : "",
  ].filter((text) => text !== "");
  rerender(host, JSON.stringify(texts), () => texts.map((text) => notice("warn", el("p", { text }))));
}

/** Goes to the figure that the address names, once. */
function leadToChart(root, state) {
  if (state.chart === "") return;
  const card = root.querySelector(`[data-testid="figure-${CSS.escape(state.chart)}"]`);
  if (card === null) return;
  state.chart = "";
  card.scrollIntoView({ block: "center" });
}
