/** Which changes of alerts the browser tells of, for a person who asked for it. Pure. */

import { isNews, severityInfo } from "./alerts.js";
import { formatStep, isNumber } from "./format.js";

/** Off until somebody switches it on; `projects` empty means all of them, and the service. */
export const NO_NOTICES = { enabled: false, warnings: false, projects: [] };

/** The choice as it was stored; whatever is not understood is off. */
export function parseChoice(text) {
  try {
    const { enabled, warnings, projects } = JSON.parse(text);
    return {
      enabled: enabled === true,
      warnings: warnings === true,
      projects: Array.isArray(projects) ? projects.filter((name) => typeof name === "string") : [],
    };
  } catch {
    return { ...NO_NOTICES };
  }
}

/**
 * What to show for a change of an alert, `{title, body, tag, alertId}`; null for what the person did not ask
 * for. The tag is the same in all tabs, so that the browser shows one change once.
 */
export function noticeOf(event, choice) {
  if (!choice.enabled || !isNews(event)) return null;
  if (event.severity !== "critical" && !(choice.warnings && event.severity === "warning")) return null;
  if (choice.projects.length > 0 && !choice.projects.includes(event.project)) return null;
  const { name } = severityInfo(event.severity);
  const where = [
    event.project ?? "the service",
    isNumber(event.step) ? `step ${formatStep(event.step)}` : "",
    event.change === "snooze_ended" ? "its snooze is over" : "",
  ];
  return {
    title: `${name}: ${event.title}`,
    body: where.filter((text) => text !== "").join(" · "),
    tag: `collapsewatch-change-${event.change_id}`,
    alertId: event.alert_id,
  };
}

/** What the permission and the choice come to, in words for the switch. */
export function permissionWords(permission, choice) {
  if (permission === "unsupported") return "This browser shows no notifications on an address without https.";
  if (permission === "denied") {
    return "The browser blocks notifications of this page. Allow them in its settings for this address.";
  }
  if (!choice.enabled) return "Off. The browser asks for permission when you switch it on.";
  if (permission === "default") return "The browser was not asked yet. Switch it off and on again.";
  return "On in this browser, while the page is open in a tab.";
}
