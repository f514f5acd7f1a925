/** What of a run waits, was put off or was lost, in words. Pure. */

import { formatBytes, formatDuration, formatStep, humanise, plural } from "./format.js";

/** What the trainer's side counts, by the first word of a reason, one and many. */
const THINGS = {
  batches: ["batch", "batches"],
  values: ["value", "values"],
  runs: ["start of a run", "starts of runs"],
  updates: ["update", "updates"],
};

/** Why it dropped them, by the rest of the reason. */
const CAUSES = {
  spool_full: "the disk budget of the trainer’s spool was used up, and the oldest had to go",
  not_finite: "NaN or infinite",
  invalid: "not valid, so the trainer’s side refused to log it",
  rejected: "the server refused it for good",
  closed: "logged after the run had been finished",
};

/** `batches_spool_full` as what was dropped and why; an unknown reason keeps its own words. */
function reasonWords(reason, count) {
  const [, first, rest] = /^([a-z]+)_(.+)$/.exec(reason) ?? [];
  if (!Object.hasOwn(THINGS, first ?? "")) return { what: plural(count, "item"), why: humanise(reason) };
  const why = Object.hasOwn(CAUSES, rest) ? CAUSES[rest] : humanise(rest);
  return { what: plural(count, ...THINGS[first]), why };
}

export function totalDropped(dropped) {
  return Object.values(dropped ?? {}).reduce((sum, count) => sum + count, 0);
}

/** `[{what, why}]`, the largest first; reasons that never happened are left out. */
export function droppedReasons(dropped) {
  return Object.entries(dropped ?? {})
    .filter(([, count]) => count > 0)
    .sort(([, a], [, b]) => b - a)
    .map(([reason, count]) => reasonWords(reason, count));
}

/**
 * `37 records (1.2 MiB), the oldest 3 min old`; nothing when the spool is empty.
 * @param {Record<string, any>} [backlog]
 */
export function spoolWords({
  spool_records: records,
  spool_bytes: bytes,
  spool_oldest_seconds: seconds,
} = {}) {
  if (!records) return "";
  const age = seconds >= 1 ? `, the oldest ${formatDuration(seconds)} old` : "";
  return `${plural(records, "record")} (${formatBytes(bytes ?? 0)})${age}`;
}

/** Who brings what waits: the trainer itself while it lives, else its next start or a person. */
function shippingWords(state) {
  if (state === "running")
    return "The trainer sends them as soon as the server takes them; training does not wait.";
  return "The next start of the training on that host sends them, and so does “collapsewatch sync” there.";
}

/** Lines for a run's page, the gravest first: `[{id, tone, short, title, text}]`. */
export function backlogLines(summary) {
  const { dropped, num_deferred: deferred = 0, why_unscored: unscored = null } = summary;
  const lines = [];
  const lost = totalDropped(dropped);
  if (lost > 0) {
    const reasons = droppedReasons(dropped).map(({ what, why }) => `${what}: ${why}`);
    lines.push({
      id: "dropped",
      tone: "warning",
      short: `${plural(lost, "item")} dropped`,
      title: `${plural(lost, "item")} dropped on the trainer, and will not arrive`,
      text: `${reasons.join(". ")}.`,
    });
  }
  if (unscored !== null) {
    lines.push({
      id: "unscored",
      tone: "warning",
      short: "new batches are not scored",
      title: "New batches are not scored",
      text: unscored,
    });
  }
  const spool = spoolWords(summary);
  if (spool !== "") {
    lines.push({
      id: "spool",
      tone: "info",
      short: `${plural(summary.spool_records, "record")} on the trainer’s disk`,
      title: "Waiting on the trainer’s disk",
      text: `${spool}. ${shippingWords(summary.state)}`,
    });
  }
  if (deferred > 0) {
    lines.push({
      id: "deferred",
      tone: "info",
      short: `${plural(deferred, "older batch", "older batches")} put off`,
      title: `${plural(deferred, "older batch", "older batches")} put off`,
      text: "The run produces faster than its batches are scored. They are scored, the oldest first, when nothing newer waits.",
    });
  }
  return lines;
}

/** What the run's head says of it, batches that were not scored first: `[{id, tone, short}]`. */
export function backlogHeadline(summary) {
  const { dead = 0, thinned = 0 } = summary.jobs ?? {};
  const unscored = [
    { id: "dead", count: dead, what: "could not be scored" },
    { id: "thinned", count: thinned, what: "laid aside" },
  ];
  return [
    ...unscored
      .filter(({ count }) => count > 0)
      .map(({ id, count, what }) => ({
        id,
        tone: "warning",
        short: `${plural(count, "batch", "batches")} ${what}`,
      })),
    ...backlogLines(summary),
  ];
}

/** What the scoring has not reached yet, in one line; silent when it keeps up. */
export function queueWords({ jobs, num_deferred: deferred = 0, last_step: lastStep, regime, samplings }) {
  const waiting = Math.max(0, (jobs?.queued ?? 0) + (jobs?.leased ?? 0) - deferred);
  if (waiting === 0) return "";
  const behind =
    regime !== null && lastStep !== null && nextScoredStep(regime, samplings?.[regime.scope]) <= lastStep;
  return `${plural(waiting, "batch", "batches")} being scored${behind ? `, scored up to step ${formatStep(regime.step)}` : ""}`;
}

/** The step that should be scored next; unknown where only batches with probe prompts are. */
function nextScoredStep({ step }, sampling) {
  if (sampling?.is_probe) return Infinity;
  const every = sampling?.every_steps ?? 1;
  return (Math.floor(step / every) + 1) * every;
}
