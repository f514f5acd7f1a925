/** How runs are compared: what a person chose, as the page's address holds it. Pure. */

import { viewChoice, viewQuery } from "./chart_view.js";

export const AXES = ["step", "time", "tokens"];
/** Stands for all settings but the seed and what else names a single run. */
export const BY_SEEDS = "*";
const BANDS = ["interval", "range", "none"];
const MAX_KEYS = 20;

/**
 * The choice of an address's parameters; whatever cannot be meant is the usual one.
 *
 * `scope`: which turns; `axis`: steps, time or tokens; `groupBy`: settings that a group's runs share; `band`:
 * what is shown around a group's mean; `hidden`: runs that are not drawn; `added`: further metrics; `sort`:
 * `<scope>:<metric>` and `-` before it for the largest first; `settings`: "all" for those that agree, too;
 * `view`: how the charts are shown; `chart`: the figure to go to.
 */
export function comparisonChoice(params) {
  const one = (name, options) => (options.includes(params.get(name)) ? params.get(name) : options[0]);
  const list = (name) => (params.get(name) ?? "").split(",").filter((each) => each !== "");
  const axis = one("x", AXES);
  return {
    scope: params.get("scope") ?? "",
    axis,
    groupBy: [...new Set(params.getAll("group").filter((key) => key !== ""))].slice(0, MAX_KEYS),
    band: one("band", BANDS),
    hidden: list("hide"),
    added: [...new Set(params.getAll("add").filter((key) => key !== ""))].slice(0, MAX_KEYS),
    sort: params.get("sort") ?? "",
    settings: params.get("settings") === "all" ? "all" : "",
    chart: params.get("chart") ?? "",
    // The axis is the comparison's own: a time since the start of each run, not of the day.
    view: { ...viewChoice(params), axis: "step" },
  };
}

/**
 * The choice as parameters `[[name, value]]` of an address; the usual choices are left out.
 * @param {Record<string, any>} [choice]
 */
export function comparisonQuery({
  scope = "",
  axis = "step",
  groupBy = [],
  band = "interval",
  hidden = [],
  added = [],
  sort = "",
  settings = "",
  chart = "",
  view,
} = {}) {
  const shown = view === undefined ? {} : viewQuery({ ...view, axis: "step" });
  return [
    ["scope", scope],
    ["x", axis === "step" ? "" : axis],
    ...groupBy.map((key) => ["group", key]),
    ["band", band === "interval" ? "" : band],
    ["hide", hidden.join(",")],
    ...added.map((key) => ["add", key]),
    ["sort", sort],
    ["settings", settings],
    ...Object.entries(shown),
    ["chart", chart],
  ].filter(([, value]) => value !== "");
}
