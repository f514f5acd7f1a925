/** The address of each screen. Pure. */

import { viewChoice, viewQuery } from "./chart_view.js";
import { comparisonChoice, comparisonQuery } from "./compare_choice.js";
import { runsChoice, runsQuery } from "./runs_view.js";

/** Screen and its parameters of a location hash; null for a hash that is no screen. */
export function parseRoute(hash) {
  const text = hash === "" || hash === "#" ? "#/" : hash;
  if (!text.startsWith("#/")) return null;
  const [path, query = ""] = text.slice(1).split("?", 2);
  const params = new URLSearchParams(query);
  if (path === "/") return { screen: "runs", ...runsChoice(params) };
  if (path === "/compare") {
    const runIds = (params.get("runs") ?? "").split(",").filter((id) => id !== "");
    return { screen: "compare", runIds: [...new Set(runIds)], ...comparisonChoice(params) };
  }
  if (path === "/settings") return { screen: "settings" };
  if (path === "/settings/channels") return { screen: "channels" };
  if (path === "/settings/shares") return { screen: "shares" };
  const place = /^\/settings\/(people|keys|retention|audit)$/.exec(path);
  if (place !== null) {
    const [project, action] = ["project", "action"].map((name) => params.get(name) ?? "");
    return { screen: place[1], project, ...(place[1] === "audit" ? { action } : {}) };
  }
  const joining = /^\/join\/([A-Za-z0-9_-]{20,200})$/.exec(path);
  if (joining !== null) return { screen: "join", token: joining[1] };
  const refused = /^\/sign-in\/([a-z]{1,20})$/.exec(path);
  if (refused !== null) return { screen: "sign-in", reason: refused[1] };
  if (path === "/alerts") return { screen: "alerts", filters: filtersOf(params) };
  if (path === "/alerts/rules") return { screen: "rules", project: params.get("project") ?? "" };
  const alert = /^\/alerts\/([1-9]\d{0,15})$/.exec(path);
  if (alert !== null) return { screen: "alert", alertId: Number(alert[1]) };
  const rollouts = /^\/runs\/([^/]+)\/rollouts$/.exec(path);
  if (rollouts !== null) return rolloutsRoute(decodeOr(rollouts[1]), params);
  const match = /^\/runs\/([^/]+)$/.exec(path);
  if (match === null) return { screen: "unknown" };
  const runId = decodeOr(match[1]);
  return {
    screen: "run",
    runId,
    scope: params.get("scope") ?? "",
    ghost: params.get("ghost") ?? "",
    earlier: params.get("earlier") ?? "",
    scorer: params.get("scorer") ?? "",
    more: params.get("more") === "1",
    step: stepOf(params.get("step")),
    against: stepOf(params.get("against")),
    chart: params.get("chart") ?? "",
    view: viewChoice(params),
  };
}

/** A step of an address; null for none. */
const stepOf = (text) => (/^\d{1,16}$/.test(text ?? "") ? Number(text) : null);

/** One rollout of one step; what is null or empty is for the screen to choose. */
function rolloutsRoute(runId, params) {
  const word = (name, usual) => params.get(name) ?? usual;
  return {
    screen: "rollouts",
    runId,
    step: stepOf(params.get("step")),
    index: stepOf(params.get("rollout")),
    attempt: word("attempt", ""),
    group: word("group", ""),
    order: word("order", "index"),
    mark: word("mark", "template"),
    text: word("q", ""),
    where: word("where", "response"),
  };
}

/** What the inbox shows: `status` and `severity` are one word each, empty for the usual choice. */
function filtersOf(params) {
  const [status, severity, project, run, rule, text] = [
    "status",
    "severity",
    "project",
    "run",
    "rule",
    "q",
  ].map((name) => params.get(name) ?? "");
  return { status, severity, project, run, rule, text };
}

function decodeOr(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function withQuery(path, values) {
  const params = new URLSearchParams(Object.entries(values).filter(([, value]) => value));
  const query = params.toString();
  return query === "" ? `#${path}` : `#${path}?${query}`;
}

/** `view` as `parseRoute` answers it; what is absent is as usual. */
export const runsHref = (view = {}) => withQuery("/", runsQuery(view));

/**
 * `earlier` is "hidden" where superseded attempts shall not be drawn; `step` is the one that is looked at and
 * `against` the one that it is laid beside; `view` says how the charts are shown, `chart` which one to go to.
 * @param {string} runId
 * @param {Record<string, any>} [view]
 */
export function runHref(
  runId,
  { scope, ghost, earlier, scorer, more, step, against, chart, view } = {},
) {
  const steps = { step: stepText(step), against: stepText(against) };
  const shown = view === undefined ? {} : viewQuery(view);
  return withQuery(`/runs/${encodeURIComponent(runId)}`, {
    ...{ scope, ghost, earlier, scorer, more: more === true ? "1" : "" },
    ...steps,
    ...shown,
    chart,
  });
}

/** Step 0 is a step and stays in the address. */
const stepText = (step) => (step === null || step === undefined ? "" : String(step));

/**
 * The address of a rollout: what `parseRoute` answers of it, where the usual is left out.
 * @param {string} runId
 * @param {Record<string, any>} [view]
 */
export function rolloutsHref(runId, { step, index, attempt, group, order, mark, text, where } = {}) {
  return withQuery(`/runs/${encodeURIComponent(runId)}/rollouts`, {
    step: stepText(step),
    rollout: stepText(index),
    attempt,
    group,
    order: order === "index" ? "" : order,
    mark: mark === "template" ? "" : mark,
    q: text,
    where: where === "response" ? "" : where,
  });
}

export const settingsHref = () => "#/settings";
export const sharesHref = () => "#/settings/shares";
export const channelsHref = () => "#/settings/channels";
export const peopleHref = ({ project = "" } = {}) => withQuery("/settings/people", { project });
export const keysHref = ({ project = "" } = {}) => withQuery("/settings/keys", { project });
export const retentionHref = ({ project = "" } = {}) => withQuery("/settings/retention", { project });
export const auditPageHref = ({ project = "", action = "" } = {}) =>
  withQuery("/settings/audit", { project, action });
export const rulesHref = ({ project = "" } = {}) => withQuery("/alerts/rules", { project });
export const alertHref = (alertId) => `#/alerts/${alertId}`;

/** `filters` as `parseRoute` answers them; what is absent is left out of the address. */
export function alertsHref(filters = {}) {
  const { text, ...others } = filters;
  return withQuery("/alerts", { ...others, q: text });
}

/**
 * Ids are comma-free by contract, so the list stays readable in the address bar. `choice` is how the runs are
 * compared (compare_choice.js).
 */
export function compareHref(runIds, choice = {}) {
  const list = `#/compare?runs=${runIds.map(encodeURIComponent).join(",")}`;
  const more = new URLSearchParams(comparisonQuery(choice)).toString();
  return more === "" ? list : `${list}&${more}`;
}
