/** Screen of a link to one chart of a comparison: that chart, and nothing of its runs that does not belong to it. */

import * as api from "../api.js";
import { ChartView } from "../chart_view.js";
import { COMPARED, addedFigure } from "../compare.js";
import { ALL, CompareData, newsOf } from "../compare_data.js";
import { drawnState } from "../compare_drawn.js";
import { scoredScopes } from "../panels.js";
import { Refresher } from "../refresh.js";
import { parseRoute } from "../routes.js";
import { compareBar } from "./compare_bar.js";
import { comparedChart } from "./compare_charts.js";
import { notice } from "./components.js";
import { el } from "./dom.js";

/** Where runs have no baseline yet, their skill stands in the place of the quadrant. */
const SKILL = COMPARED.filter(({ metric }) => metric === "retrieval_skill");
const NO_PATHS = { paths: [], groups: [] };

/** Whether the link shows a chart of a comparison, and none of a run. */
export const isComparedChart = ({ limits }) => limits?.chart.startsWith("compare-") ?? false;

/** Mounts the chart of the link; it follows the runs when the link is live. */
export function mountSharedComparedChart(host, { shared, shell, metricsInfo }) {
  const { limits } = shared;
  const runIds = shared.runs.map((run) => run.run_id);
  const route = routeOf(shared);
  const figure = figureOf(limits, route);
  const data = CompareData.of(limitedApi(limits), { ...route, runIds }, { only: figure === null ? SKILL : [figure] });
  const view = new ChartView(route.view);
  const state = { data, view, emphasis: null };
  const chart = comparedChart(figure, { metricsInfo, view, size: "hero" });
  const bar = compareBar({ state, change, show });
  const problem = el("div");
  host.replaceChildren(
    el("div", { class: "page-head" }, el("h1", { text: shared.title })),
    problem,
    bar.root,
    el("div", { class: "shared-chart", data: { testid: "shared-chart" } }, chart.root),
  );
  shell.setTitle(shared.title, 0);
  const refresher = new Refresher(
    async (wishes) => {
      await data.load(wishes, show);
      await data.loadDetail(view.range);
      problem.replaceChildren();
      show();
    },
    {
      onError: (error) =>
        problem.replaceChildren(
          notice("bad", el("p", { text: `The chart could not be loaded: ${error.message}. Trying again.` })),
        ),
    },
  );

  function change(patch) {
    const axisChanged = patch.axis !== undefined && patch.axis !== data.choice.axis;
    data.choice = { ...data.choice, ...patch };
    if (axisChanged) view.zoom(null);
    show();
    if (axisChanged) refresher.requestNow("choice");
  }

  function show() {
    if (data.runs === null) return;
    const drawn = drawnState(state);
    bar.update(drawn);
    chart.update(drawn);
  }

  const stopView = view.subscribe((kind) => {
    if (kind === "range") refresher.request("zoom");
  });
  refresher.requestNow(ALL);
  return {
    // There is one screen, whatever the address says.
    follow: () => true,
    onOpen: () => refresher.requestNow(ALL),
    onEvent: (_, event) => {
      if (runIds.includes(event.run_id)) refresher.request(newsOf(event.run_id));
    },
    destroy() {
      refresher.stop();
      stopView();
      bar.destroy();
      chart.destroy();
    },
  };
}

/** What was chosen where the link was made, as far as the link shows it. */
function routeOf({ limits, view }) {
  /** @type {any} */
  const there = parseRoute(view);
  /** @type {any} */
  const route = there?.screen === "compare" ? there : parseRoute("#/compare");
  const [scored] = scoredScopes([...limits.trajectories, ...Object.keys(limits.series)]);
  return {
    ...route,
    scope: scored ?? route.scope,
    groupBy: route.groupBy.filter((name) => limits.group_by.includes(name)),
    axis: route.axis === "tokens" && !limits.tokens ? "step" : route.axis,
  };
}

function figureOf(limits, { added }) {
  const figures = [...COMPARED, ...added.map(addedFigure).filter((figure) => figure !== null)];
  return figures.find(({ id }) => limits.chart === `compare-${id}`) ?? null;
}

/** What the link answers; of what it does not show, nothing is asked. */
function limitedApi(limits) {
  return {
    ...api,
    getComparedPaths: async (runIds, choice) =>
      limits.trajectories.includes(choice.scope) ? api.getComparedPaths(runIds, choice) : NO_PATHS,
  };
}
