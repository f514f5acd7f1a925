/** Screen of a link to one chart: that chart, and nothing of its run that does not belong to it. */

import * as api from "../api.js";
import { ChartView } from "../chart_view.js";
import { Clock } from "../clock.js";
import { formatStep, humanise } from "../format.js";
import { MORE_PANELS, PANELS, TEMPLATE_PANEL, trainerPanels } from "../panels.js";
import { Refresher } from "../refresh.js";
import { parseRoute } from "../routes.js";
import { RunData, WISH } from "../run_data.js";
import { chartTools } from "./chart_tools.js";
import { notice } from "./components.js";
import { el, setText } from "./dom.js";
import { figureCard } from "./figure_card.js";
import { updatePanel } from "./run_charts.js";
import { quadrantPart } from "./run_quadrant.js";

/** Mounts the chart of the link; it follows the run when the link is live. */
export function mountSharedChart(host, { shared, shell, metricsInfo }) {
  /** @type {any} */
  const route = parseRoute(shared.view);
  const runId = shared.runs[0].run_id;
  const { limits } = shared;
  const data = new RunData(limitedApi(limits), runId, { scope: limits.trajectories[0] ?? route?.scope ?? "" });
  data.showsMore = MORE_PANELS.some(({ id }) => id === limits.chart);
  const charts = new ChartView(route?.view ?? {});
  charts.selected = route?.step ?? null;
  const view = { data, siblings: [], ghost: null, ghostId: "", charts };
  const about = el("p", { class: "page-sub", data: { testid: "shared-about" } });
  const problem = el("div");
  const chart = chartOf(limits, { view, metricsInfo, subject: () => [shared.runs[0].name] });
  const tools = chartTools({ view: charts });
  host.replaceChildren(
    el("div", { class: "page-head" }, el("div", {}, el("h1", { text: shared.title }), about)),
    problem,
    tools.root,
    el("div", { class: "shared-chart", data: { testid: "shared-chart" } }, chart.root),
  );
  shell.setTitle(shared.title, 0);
  const refresher = new Refresher(
    async (wishes) => {
      await data.load(wishes);
      if (charts.clock === null || charts.onTime) await readClock(charts, runId);
      problem.replaceChildren();
      tools.update(data.stepRange());
      chart.update(view);
      const { name, last_step: step } = data.summary;
      setText(about, step === null ? name : `${name}, step ${formatStep(step)}`);
    },
    {
      onError: (error) =>
        problem.replaceChildren(
          notice("bad", el("p", { text: `The chart could not be loaded: ${error.message}. Trying again.` })),
        ),
    },
  );
  refresher.requestNow(WISH.all);
  return {
    // There is one screen, whatever the address says.
    follow: () => true,
    onOpen: () => refresher.requestNow(WISH.all),
    onEvent: (name, event) => {
      if (event.run_id !== runId) return;
      refresher.request(name === "metrics" && Number.isInteger(event.step) ? event.step : WISH.summary);
    },
    destroy() {
      refresher.stop();
      tools.destroy();
      chart.destroy();
    },
  };
}

/** Without it the chart stands on steps alone. */
async function readClock(charts, runId) {
  const { steps, times } = await api.getClock(runId);
  charts.setClock(new Clock({ steps, times: times.map((seconds) => seconds * 1000) }));
}

function chartOf(limits, { view, metricsInfo, subject }) {
  if (limits.chart === "quadrant") return quadrantPart({ charts: view.charts, subject });
  const names = Object.values(limits.series).flat();
  const known = [...PANELS, ...MORE_PANELS, TEMPLATE_PANEL, ...trainerPanels(names).panels];
  const panel = known.find(({ id }) => id === limits.chart) ?? known[known.length - 1];
  const { id, metric, legend: hasLegend } = panel;
  const info = metricsInfo[metric];
  const title = id.startsWith("trainer-") ? (info?.title ?? humanise(metric)) : panel.title;
  const card = figureCard({
    id,
    title,
    size: "hero",
    info,
    hasLegend,
    view: view.charts,
    subject,
    onStep: (step) => view.charts.select(step),
  });
  return {
    root: card.root,
    update: ({ data }) => updatePanel(card, panel, data),
    destroy: () => card.destroy(),
  };
}

/** What the link answers; of what it does not show, nothing is asked. */
function limitedApi(limits) {
  const nothing = { points: [], thresholds: null, baseline: null };
  return {
    ...api,
    getAlerts: async () => [],
    getJobs: async () => [],
    getStep: async () => {
      throw Object.assign(new Error("not shared"), { status: 404 });
    },
    getTrajectory: async (runId, choice) =>
      limits.trajectories.includes(choice.scope) ? api.getTrajectory(runId, choice) : nothing,
  };
}
