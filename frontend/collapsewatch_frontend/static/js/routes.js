/** The address of each screen. Pure. */

/** Screen and its parameters of a location hash; null for a hash that is no screen. */
export function parseRoute(hash) {
  const text = hash === "" || hash === "#" ? "#/" : hash;
  if (!text.startsWith("#/")) return null;
  const [path, query = ""] = text.slice(1).split("?", 2);
  const params = new URLSearchParams(query);
  if (path === "/") {
    return { screen: "runs", project: params.get("project") ?? "", search: params.get("q") ?? "" };
  }
  if (path === "/compare") {
    const runIds = (params.get("runs") ?? "").split(",").filter((id) => id !== "");
    return { screen: "compare", runIds: [...new Set(runIds)] };
  }
  if (path === "/settings") return { screen: "settings" };
  if (path === "/settings/channels") return { screen: "channels" };
  if (path === "/alerts") return { screen: "alerts", filters: filtersOf(params) };
  if (path === "/alerts/rules") return { screen: "rules", project: params.get("project") ?? "" };
  const alert = /^\/alerts\/([1-9]\d{0,15})$/.exec(path);
  if (alert !== null) return { screen: "alert", alertId: Number(alert[1]) };
  const match = /^\/runs\/([^/]+)$/.exec(path);
  if (match === null) return { screen: "unknown" };
  const runId = decodeOr(match[1]);
  return {
    screen: "run",
    runId,
    scope: params.get("scope") ?? "",
    ghost: params.get("ghost") ?? "",
    earlier: params.get("earlier") ?? "",
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

export function runsHref({ project = "", search = "" } = {}) {
  return withQuery("/", { project, q: search });
}

/** `earlier` is "hidden" where superseded attempts shall not be drawn. */
export function runHref(runId, { scope = "", ghost = "", earlier = "" } = {}) {
  return withQuery(`/runs/${encodeURIComponent(runId)}`, { scope, ghost, earlier });
}

export const settingsHref = () => "#/settings";
export const channelsHref = () => "#/settings/channels";
export const rulesHref = ({ project = "" } = {}) => withQuery("/alerts/rules", { project });
export const alertHref = (alertId) => `#/alerts/${alertId}`;

/** `filters` as `parseRoute` answers them; what is absent is left out of the address. */
export function alertsHref(filters = {}) {
  const { text, ...others } = filters;
  return withQuery("/alerts", { ...others, q: text });
}

/** Ids are comma-free by contract, so the list stays readable in the address bar. */
export function compareHref(runIds) {
  return `#/compare?runs=${runIds.map(encodeURIComponent).join(",")}`;
}
