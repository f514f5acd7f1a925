/** Order, counts and news among alerts. Pure. */

import { formatAge, formatStep, isNumber } from "./format.js";

export const SEVERITIES = {
  critical: { name: "Critical", rank: 0, icon: "critical" },
  warning: { name: "Warning", rank: 1, icon: "warning" },
  info: { name: "Note", rank: 2, icon: "info" },
};

export function severityInfo(severity) {
  return Object.hasOwn(SEVERITIES, severity) ? SEVERITIES[severity] : SEVERITIES.info;
}

/** Whether an alert asks for someone now: one of a step that a later attempt replayed is history. */
export function isOpen(alert) {
  return alert.status === "open" && alert.superseded !== true;
}

/** Open ones first, the most severe first among them, then the newest. */
export function sortAlerts(alerts) {
  const openRank = (alert) => (isOpen(alert) ? 0 : 1);
  return [...alerts].sort(
    (a, b) =>
      openRank(a) - openRank(b) ||
      (isOpen(a) ? severityInfo(a.severity).rank - severityInfo(b.severity).rank : 0) ||
      newestFirst(a, b),
  );
}

/** What is about no step (a stall, the queue) is about now and stands before what is about a step. */
function newestFirst(a, b) {
  const place = (alert) => (isNumber(alert.opened_step) ? alert.opened_step : Number.MAX_VALUE);
  return place(b) - place(a) || Date.parse(b.opened_at) - Date.parse(a.opened_at);
}

export function openAlerts(alerts) {
  return sortAlerts(alerts).filter(isOpen);
}

/** Alerts with a place on the step axis; those of superseded steps only beside what they were about. */
export function alertsOnSteps(alerts, { earlier = false } = {}) {
  return alerts.filter((alert) => isNumber(alert.opened_step) && (earlier || alert.superseded !== true));
}

/** When an alert was opened and resolved: by step, or by time alone where it is about no step. */
export function alertWhenWords(alert, nowMs) {
  const age = formatAge(alert.opened_at, nowMs);
  const opened = isNumber(alert.opened_step)
    ? `opened at step ${formatStep(alert.opened_step)}, ${age}`
    : `opened ${age}`;
  if (isNumber(alert.resolved_step)) return `${opened}; resolved at step ${formatStep(alert.resolved_step)}`;
  return alert.resolved_at ? `${opened}; resolved ${formatAge(alert.resolved_at, nowMs)}` : opened;
}

const NEWS = ["opened", "escalated", "snooze_ended"];

/** Whether a change of an alert is told of as it happens; what somebody did by hand is seen in the inbox. */
export const isNews = ({ change }) => NEWS.includes(change);

/** Open alerts that ask someone to act: critical and warning. */
export function urgentCount(counts) {
  return (counts?.critical ?? 0) + (counts?.warning ?? 0);
}

/** `(2) name · collapsewatch`, so that a tab in the background tells of its alerts. */
export function documentTitle(name, numUrgent) {
  const title = name === "" ? "collapsewatch" : `${name} · collapsewatch`;
  return numUrgent > 0 ? `(${numUrgent}) ${title}` : title;
}

/** First sentence of a message and the rest; a full stop inside a number ends no sentence. */
export function splitLead(message) {
  const end = /[.!?](?=\s+[A-Z0-9])/.exec(message);
  if (end === null) return { lead: message, rest: "" };
  return { lead: message.slice(0, end.index + 1), rest: message.slice(end.index + 1).trim() };
}
