/** Order, counts and news among alerts. Pure. */

export const SEVERITIES = {
  critical: { name: "Critical", rank: 0, icon: "critical" },
  warning: { name: "Warning", rank: 1, icon: "warning" },
  info: { name: "Note", rank: 2, icon: "info" },
};

export function severityInfo(severity) {
  return Object.hasOwn(SEVERITIES, severity) ? SEVERITIES[severity] : SEVERITIES.info;
}

/** Open ones first, the most severe first among them, then the newest. */
export function sortAlerts(alerts) {
  const openRank = (alert) => (alert.status === "open" ? 0 : 1);
  return [...alerts].sort(
    (a, b) =>
      openRank(a) - openRank(b) ||
      (a.status === "open" ? severityInfo(a.severity).rank - severityInfo(b.severity).rank : 0) ||
      b.opened_step - a.opened_step ||
      Date.parse(b.opened_at) - Date.parse(a.opened_at),
  );
}

export function openAlerts(alerts) {
  return sortAlerts(alerts).filter((alert) => alert.status === "open");
}

/** Open alerts whose ids were not known before. */
export function freshAlerts(knownIds, alerts) {
  return openAlerts(alerts).filter((alert) => !knownIds.has(alert.alert_id));
}

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
