/** Whether the page shows what somebody shared: read-only, and nothing but that. */

const ADDRESS = /^\/s\/([A-Za-z0-9_-]{20,200})$/;

/** The token of a shared page's address; null on every other page. */
export function shareToken(pathname = globalThis.location?.pathname ?? "") {
  return ADDRESS.exec(pathname)?.[1] ?? null;
}

/** On a shared page nothing can be changed, so what changes something is not offered there. */
export const isShared = () => shareToken() !== null;

let hasRollouts = true;

/** Notes what the link shows, as the server answers it. */
export function noteShared(shared) {
  hasRollouts = shared.with_rollouts;
}

/** Whether ways to the rollouts lead nowhere: the link does not show what the model wrote. */
export const hidesRollouts = () => isShared() && !hasRollouts;

/** Where the page reads from: a shared page's answers hold what was shared and nothing else. */
export function apiPrefix(pathname) {
  const token = shareToken(pathname);
  return token === null ? "/api/v1" : `/api/v1/shared/${token}`;
}

/** Where a link begins: at the view that was shared. */
export function startHash({ view, kind, runs }) {
  if (view.startsWith("#/compare?")) return withoutGone(view, runs);
  if (view !== "" && view !== "#/") return view;
  if (kind === "run" && runs.length === 1) return `#/runs/${encodeURIComponent(runs[0].run_id)}`;
  return "#/";
}

/** A comparison without the runs that were deleted since it was shared. */
function withoutGone(view, runs) {
  const ids = new Set(runs.map((run) => run.run_id));
  const params = new URLSearchParams(view.slice("#/compare?".length));
  const kept = (params.get("runs") ?? "").split(",").filter((runId) => ids.has(runId));
  params.delete("runs");
  const rest = params.toString();
  return `#/compare?runs=${kept.map(encodeURIComponent).join(",")}${rest === "" ? "" : `&${rest}`}`;
}

/** Whether a screen, as `parseRoute` answers it, shows nothing but what was shared. */
export function showsScreen({ runs, with_rollouts: withRollouts }, route) {
  const ids = new Set(runs.map((run) => run.run_id));
  if (route.screen === "runs") return true;
  if (route.screen === "rollouts") return withRollouts && ids.has(route.runId);
  if (route.screen === "run") return ids.has(route.runId);
  if (route.screen === "compare") return route.runIds.length > 0 && route.runIds.every((runId) => ids.has(runId));
  return false;
}

/** How long links may last: `[{id, name}]`, the id in seconds. */
export const LIFETIMES = [
  { id: "86400", name: "1 day" },
  { id: "604800", name: "1 week" },
  { id: "2592000", name: "30 days" },
  { id: "31536000", name: "1 year" },
];
export const USUAL_LIFETIME = "2592000";

/** The places in a panel's `scope` that stand for the scope a person looks at. */
const LOOKED_AT = "scored";

/**
 * What a link to one panel's chart lets its holder read: `{chart, series, trajectories}`; `scope` is the scored
 * scope that is looked at.
 */
export function chartLimits(panel, scope) {
  const place = panel.scope === LOOKED_AT ? scope : panel.scope;
  const metrics = [panel.metric, ...panel.lines.map(({ metric }) => metric)];
  if (panel.beside) metrics.push(panel.beside.metric);
  return { chart: panel.id, series: { [place]: [...new Set(metrics)] }, trajectories: [] };
}

/** The same for the quadrant. */
export const quadrantLimits = (scope) => ({ chart: "quadrant", series: {}, trajectories: [scope] });

/**
 * What a link to one chart of a comparison lets its holder read; `figure` is one of `CompareData`, null for the
 * quadrant, which shows the skill alone where runs have no baseline yet.
 */
export function comparedLimits(figure, { scope, groupBy, axis }) {
  const shown = { group_by: groupBy, tokens: axis === "tokens" };
  if (figure === null) {
    return {
      chart: "compare-quadrant",
      series: { [scope]: ["retrieval_skill"] },
      trajectories: [scope],
      ...shown,
    };
  }
  const metrics = [figure.metric, figure.reference].filter((metric) => metric !== undefined);
  const place = figure.scope === LOOKED_AT ? scope : figure.scope;
  return { chart: `compare-${figure.id}`, series: { [place]: metrics }, trajectories: [], ...shown };
}

/** The address of a link: the server's own word where the operator has given one, else beside this page. */
export const linkAddress = ({ url, path }, origin) => url ?? `${origin}${path}`;

/** A link in a few words: what it shows, how long, how often it was opened. `format` gives a time as words. */
export function linkWords(link, format) {
  const shown =
    link.mode === "snapshot" ? `as it was at ${format(link.frozen_at)}` : "live, as it goes on";
  const times = link.num_opened === 1 ? "once" : `${link.num_opened} times`;
  const opened = link.num_opened === 0 ? "never opened" : `opened ${times}`;
  const end = {
    good: `until ${format(link.expires_at)}`,
    expired: `expired ${format(link.expires_at)}`,
    revoked: `ended ${format(link.revoked_at)}`,
  }[link.status];
  return `${shown} · ${end} · ${opened}`;
}
