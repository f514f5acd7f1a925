/** Asks for what the first screen shows, while its modules still come. */

import { aheadApi, forgetAhead } from "./api.js";
import { CompareData } from "./compare_data.js";
import { fetchPlotly, runPlotlySoon } from "./plotly_library.js";
import { parseRoute } from "./routes.js";
import { RunData, WISH } from "./run_data.js";
import { questionOf } from "./runs_view.js";

/** By then the screen has taken what it needs. */
const FORGET_MS = 10_000;

/** @type {Record<string, (route: any) => Promise<unknown> | undefined>} */
const FIRST = {
  runs: (route) => Promise.all([aheadApi.getRunRows(questionOf(route)), aheadApi.getProjects()]),
  run(route) {
    fetchPlotly();
    return RunData.of(aheadApi, route, { onAsked: runPlotlySoon }).load(new Set([WISH.all]));
  },
  compare(route) {
    if (route.runIds.length === 0) return undefined;
    fetchPlotly();
    return CompareData.of(aheadApi, route, { onAsked: runPlotlySoon }).load(new Set(["all"]));
  },
};

/** Has the browser fetch all that a screen needs at once: else it learns of each module from the one before. */
function fetchScreen(name) {
  const modules = document.querySelector(`meta[name="screen-${name}"]`)?.getAttribute("content") ?? "";
  for (const module of modules.split(" ").filter(Boolean)) {
    const link = document.createElement("link");
    link.rel = "modulepreload";
    link.href = new URL(module, import.meta.url).href;
    document.head.append(link);
  }
}

const route = parseRoute(window.location.hash);
// The screen itself hears of what goes wrong, and says so.
if (route !== null) FIRST[route.screen]?.(route)?.catch(() => {});
aheadApi.getSession().catch(() => {});
aheadApi.getMetricsInfo().catch(() => {});
// Last: what is asked above is waited for longest.
if (route !== null) fetchScreen(route.screen);
setTimeout(forgetAhead, FORGET_MS);
