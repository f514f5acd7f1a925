/** The service's own state in words: queue, workers, runs that wait. Pure. */

import { openAlerts } from "./alerts.js";
import { totalDropped } from "./backlog.js";
import { formatBytes, formatDuration, formatStep, isNumber, plural } from "./format.js";

/** `attention` marks a number that someone should look at. */
export function queueFacts(queue) {
  const waiting = queue.queued + queue.deferred;
  return [
    {
      id: "queued",
      name: "Waiting",
      value: formatStep(queue.queued),
      note: "batches, the next in line first",
    },
    { id: "leased", name: "Being scored", value: formatStep(queue.leased), note: "by a worker right now" },
    {
      id: "oldest",
      name: "Oldest waiting",
      value: waiting > 0 && isNumber(queue.oldest_seconds) ? formatDuration(queue.oldest_seconds) : "none",
      note: "since the server accepted it",
      attention: queue.oldest_seconds > 120,
    },
    {
      id: "deferred",
      name: "Put off",
      value: formatStep(queue.deferred),
      note: "older batches of runs that produce faster than they are scored",
    },
    {
      id: "thinned",
      name: "Laid aside",
      value: formatStep(queue.thinned),
      note: "unscored; can be queued again on the run’s page",
      attention: queue.thinned > 0,
    },
    {
      id: "dead",
      name: "Could not be scored",
      value: formatStep(queue.dead),
      note: "failed every start; the run’s page tells why",
      attention: queue.dead > 0,
    },
  ];
}

export const WORKER_STATES = {
  working: { name: "Working", icon: "running", tone: "good" },
  idle: { name: "Idle", icon: "idle", tone: "quiet" },
  stopping: { name: "Stopping", icon: "stopping", tone: "quiet" },
  gone: { name: "Gone", icon: "crashed", tone: "warning" },
};

export function workerStateInfo(state) {
  if (Object.hasOwn(WORKER_STATES, state)) return WORKER_STATES[state];
  return { name: String(state), icon: "insufficient", tone: "quiet" };
}

const WORKER_ORDER = ["working", "idle", "stopping", "gone"];

/** Those at work first, the lost ones last, by name among them. */
export function sortWorkers(workers) {
  const rank = ({ state }) =>
    (WORKER_ORDER.indexOf(state) + WORKER_ORDER.length + 1) % (WORKER_ORDER.length + 1);
  return [...workers].sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
}

/** `2 workers, 1 at work`; those that are gone are not counted as workers. */
export function workersWords(workers) {
  const live = workers.filter((worker) => worker.state !== "gone");
  const working = live.filter((worker) => worker.state === "working").length;
  if (live.length === 0) return "no live worker";
  return `${plural(live.length, "worker")}, ${working === 0 ? "none" : formatStep(working)} at work`;
}

/** Runs that have something on a trainer's disk, lost something or had batches put off; losses first. */
export function sortBacklog(runs) {
  return [...runs].sort(
    (a, b) =>
      totalDropped(b.dropped) - totalDropped(a.dropped) ||
      b.spool_oldest_seconds - a.spool_oldest_seconds ||
      a.name.localeCompare(b.name),
  );
}

/** Open critical alerts about the service itself, for the banner on every page; a run has its own page. */
export function bannerAlerts(alerts) {
  return openAlerts(alerts).filter((alert) => alert.severity === "critical" && !alert.run_id);
}

/**
 * `12.3 GiB free of 64.0 GiB`; nothing when the server does not know.
 * @param {Record<string, any>} [service]
 */
export function diskWords({ disk_free_bytes: free, disk_total_bytes: total } = {}) {
  if (!isNumber(free)) return "";
  return `${formatBytes(free)} free${isNumber(total) ? ` of ${formatBytes(total)}` : ""}`;
}

/** One line under the page's title. */
export function serviceWords({ workers, queue }) {
  const waiting = queue.queued + queue.leased + queue.deferred;
  const queueText = waiting === 0 ? "nothing waits" : `${plural(waiting, "batch", "batches")} to score`;
  return `${workersWords(workers)} · ${queueText}`;
}
