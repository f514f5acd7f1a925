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

/** Ids are comma-free by contract, so the list stays readable in the address bar. */
export function compareHref(runIds) {
  return `#/compare?runs=${runIds.map(encodeURIComponent).join(",")}`;
}
