/** What an alert's own page says: sentences, signals beside it, figures around the moment, history. Pure. */

import { formatPercent, formatStep, humanise, isNumber } from "./format.js";
import { splitLead } from "./alerts.js";

/** The sentences of a message, one by one. */
export function sentences(message) {
  const found = [];
  let left = message.trim();
  while (left !== "") {
    const { lead, rest } = splitLead(left);
    found.push(lead.trim());
    left = rest;
  }
  return found;
}

/** Scores against metrics: where an alert names a value otherwise than its metric is named. */
const NAMES = { skill: "retrieval_skill", floor_skill: "retrieval_skill" };

/**
 * What was measured beside the alert's own value, each with its baseline: `[{metric, value, baseline, kind}]`;
 * `kind` is "corroborating", "contradicting", "own" (which comes first) or "beside" where the rule did not weigh it.
 */
export function signals(evidence) {
  const found = [];
  if (isNumber(evidence.value) && isNumber(evidence.baseline) && typeof evidence.metric === "string") {
    found.push({ metric: evidence.metric, value: evidence.value, baseline: evidence.baseline, kind: "own" });
  }
  for (const [key, value] of Object.entries(evidence)) {
    const baseline = evidence[`baseline_${key}`];
    if (isNumber(value) && isNumber(baseline)) {
      const metric = NAMES[key] ?? key;
      found.push({ metric, value, baseline, kind: key === "skill" ? "own" : "beside" });
    }
  }
  for (const kind of ["corroborating", "contradicting"]) {
    for (const { metric, value, baseline } of evidence[kind] ?? []) {
      if (isNumber(value)) found.push({ metric, value, baseline, kind });
    }
  }
  return [...found.filter(({ kind }) => kind === "own"), ...found.filter(({ kind }) => kind !== "own")];
}

/** `0.31 times the baseline`, `as at baseline`; nothing without a baseline or where it is 0. */
export function ratioWords({ value, baseline }) {
  if (!isNumber(baseline) || baseline === 0 || value < 0 !== baseline < 0) return "";
  const ratio = value / baseline;
  return Math.abs(ratio - 1) < 0.05 ? "as at baseline" : `${Number(ratio.toPrecision(2))} × baseline`;
}

/** Values of the baseline by metric, as far as the alert keeps them. */
export function baselineValues(evidence) {
  return Object.fromEntries(
    signals(evidence)
      .filter(({ baseline }) => isNumber(baseline))
      .map(({ metric, baseline }) => [metric, baseline]),
  );
}

/** The limit that a value was held against, by metric. */
export function limitValues(evidence) {
  const found = {};
  if (isNumber(evidence.limit) && typeof evidence.metric === "string")
    found[evidence.metric] = evidence.limit;
  if (isNumber(evidence.floor_skill)) found.retrieval_skill = evidence.floor_skill;
  if (isNumber(evidence.floor_accuracy)) found.retrieval_accuracy = evidence.floor_accuracy;
  return found;
}

const BESIDE = { retrieval_accuracy: "retrieval_chance" };
const HELPERS = Object.values(BESIDE);
const MAX_FIGURES = 8;

/**
 * The figures around the moment: `[{id, scope, metric, series, beside, baseline, limit}]`, the alert's own
 * scope and the rule's own metric first. A metric that has no point is left out.
 */
export function momentFigures({ series }, evidence, ownMetric) {
  const baselines = baselineValues(evidence);
  const limits = limitValues(evidence);
  const figures = series.flatMap((place) =>
    Object.entries(place.series)
      .filter(([metric, points]) => !HELPERS.includes(metric) && points.steps.length > 0)
      .map(([metric, points]) => ({
        id: `${place.scope}-${metric}`,
        scope: place.scope,
        metric,
        series: points,
        beside: place.series[BESIDE[metric]] ?? null,
        baseline: baselines[metric] ?? null,
        limit: limits[metric] ?? null,
      })),
  );
  const rank = ({ metric }) => (metric === ownMetric ? 0 : 1);
  return figures.sort((a, b) => rank(a) - rank(b)).slice(0, MAX_FIGURES);
}

/** First and last step over all figures; null without any. */
export function momentRange(figures) {
  const steps = figures.flatMap(({ series }) => series.steps);
  return steps.length === 0 ? null : [Math.min(...steps), Math.max(...steps)];
}

/** What the rule may use of the error budget; nothing for a rule without a rate. */
export function budgetWords({ alpha, budget_share: share }, severity) {
  if (!isNumber(alpha) || alpha <= 0) return "";
  const often = `On a stable run this rule opens a false ${severity === "info" ? "note" : severity === "warning" ? "warning" : "critical alert"} in this scope at most once in ${formatStep(Math.floor(1 / alpha))} evaluations, in the long run.`;
  if (!isNumber(share)) return often;
  return `${often} That is ${formatPercent(share)} of the error budget that all rules of a run share for this severity.`;
}

const DELIVERIES_AT_ONCE = 200;
const MOST_PAGES = 5;

/**
 * What channels were told of an item, `[{at, channel_name, status, answer}]`; `api` asks the server. Each log
 * is read back to when the item opened, or as far as is reasonable.
 */
export async function itemDeliveries(api, { thread_id: threadId, opened_at: openedAt }) {
  const logs = await Promise.all(
    (await api.getChannels()).map(async ({ channel_id: id, name }) => {
      const found = [];
      let before;
      for (let pages = 0; pages < MOST_PAGES; pages += 1) {
        const page = await api.getDeliveries(id, { before, limit: DELIVERIES_AT_ONCE });
        found.push(...page.deliveries.map((delivery) => ({ ...delivery, channel_name: name })));
        const last = page.deliveries[page.deliveries.length - 1];
        before = page.next_before ?? undefined;
        if (before === undefined || Date.parse(last.created_at) < Date.parse(openedAt)) break;
      }
      return found;
    }),
  );
  return logs
    .flat()
    .filter(({ changes }) => changes.some((change) => change.thread_id === threadId))
    .map(({ finished_at: finished, created_at: created, channel_name, status, answer }) => ({
      at: finished ?? created,
      channel_name,
      status,
      answer,
    }));
}

const CHANGES = {
  opened: "Opened",
  escalated: "Became graver",
  acknowledged: "Acknowledged",
  snoozed: "Snoozed",
  snooze_ended: "The snooze ended while it was still open",
  reopened: "Reopened",
  resolved: "Resolved",
};
const REASONS = {
  rule: "its rule's condition was no longer met",
  hand: "by hand",
  superseded: "a later attempt replayed its step",
  withdrawn: "with all steps in order it never was",
  switched_off: "its rule was switched off",
};
const DONE = { acknowledge: "acknowledged", snooze: "snoozed", resolve: "resolved", reopen: "reopened" };
/** An action and the change that it made are stored in one transaction, a blink apart. */
const SAME_MS = 2_000;

/**
 * Changes and actions as one history, oldest first: `[{at, what, who, note, severity}]`. What a person did
 * and what changed by it is one entry; an action that changed nothing that channels hear of stands alone.
 */
export function history({ changes, actions, deliveries = [] }) {
  const left = [...actions];
  const entries = changes.map((change) => {
    const at = left.findIndex(
      (action) =>
        DONE[action.kind] === change.change &&
        Math.abs(Date.parse(action.at) - Date.parse(change.at)) <= SAME_MS,
    );
    const action = at === -1 ? null : left.splice(at, 1)[0];
    return {
      at: change.at,
      what: changeWords(change, action),
      who: change.by ?? "",
      note: action?.note ?? "",
      severity: change.severity,
      until: action?.until ?? null,
    };
  });
  const alone = left.map((action) => ({
    at: action.at,
    what: CHANGES[DONE[action.kind]] ?? humanise(action.kind),
    who: action.by,
    note: action.note,
    severity: action.severity,
    until: action.until,
  }));
  const sent = deliveries.map((delivery) => ({
    at: delivery.at,
    what: `${delivery.status === "sent" ? "Told" : delivery.status === "failed" ? "Could not tell" : "Is still trying to tell"} the channel ${delivery.channel_name}`,
    who: "",
    note: delivery.status === "sent" ? "" : delivery.answer,
    severity: null,
    until: null,
  }));
  return [...entries, ...alone, ...sent].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
}

function changeWords({ change, reason }, action) {
  const words = CHANGES[change] ?? humanise(change);
  if (change !== "resolved" || action !== null || !reason) return words;
  return `${words}: ${REASONS[reason] ?? reason}`;
}

/** `3 of 16, chance 13 %; was 78 %`, for a prompt whose reasonings are traced back badly. */
export function promptWords({ accuracy, num_rows: rows, chance, baseline_accuracy: before }) {
  const was = isNumber(before) ? `; was ${formatPercent(before)}` : "";
  return `${formatStep(Math.round(accuracy * rows))} of ${formatStep(rows)}, chance ${formatPercent(chance)}${was}`;
}
