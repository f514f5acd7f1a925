/** Channels of alerts: their form, how they stand, and what was sent. Pure. */

import { formatAge, formatDuration, isNumber, plural } from "./format.js";

export const CHANGE_NAMES = {
  opened: "opened",
  escalated: "became graver",
  acknowledged: "acknowledged",
  snoozed: "snoozed",
  snooze_ended: "snooze ended",
  reopened: "reopened",
  resolved: "resolved",
};

export const KINDS = {
  webhook: {
    name: "Webhook",
    placeholder: "https://example.org/hook",
    hint: "JSON by POST, signed with a secret.",
  },
  apprise: {
    name: "Apprise",
    placeholder: "slack://… · mailtos://… · discord://…",
    hint: "One Apprise URL: Slack, Discord, e-mail and many others.",
  },
};

export const EMPTY_CHANNEL = {
  name: "",
  kind: "webhook",
  url: "",
  secret: "",
  project: "",
  min_severity: "warning",
  changes: [],
  digest_after: "5",
  window_seconds: "60",
  enabled: true,
};

/** The form's values for a channel that is there; its address and secret are never answered, so they are empty. */
export function formOfChannel(channel) {
  return {
    ...EMPTY_CHANNEL,
    name: channel.name,
    kind: channel.kind,
    project: channel.project ?? "",
    min_severity: channel.min_severity,
    changes: [...channel.changes],
    digest_after: String(channel.digest_after),
    window_seconds: String(channel.window_seconds),
    enabled: channel.enabled,
  };
}

const numberOf = (text) => {
  const given = String(text).trim().replace(",", ".");
  return given !== "" && Number.isFinite(Number(given)) ? Number(given) : given;
};

/** A new channel, as the server takes it. */
export function draftOf(form) {
  return {
    name: form.name.trim(),
    kind: form.kind,
    url: form.url.trim(),
    secret: form.kind === "webhook" && form.secret !== "" ? form.secret : null,
    ...sharedOf(form),
    project: form.project || null,
    enabled: form.enabled,
  };
}

/** What is to change: an address or a secret that was not typed stays as it is. */
export function changeOf(form) {
  return {
    name: form.name.trim(),
    ...sharedOf(form),
    ...(form.url.trim() === "" ? {} : { url: form.url.trim() }),
    ...(form.kind === "webhook" && form.secret !== "" ? { secret: form.secret } : {}),
    ...(form.project === "" ? { all_projects: true } : { project: form.project }),
    enabled: form.enabled,
  };
}

function sharedOf(form) {
  return {
    min_severity: form.min_severity,
    changes: form.changes,
    digest_after: numberOf(form.digest_after),
    window_seconds: numberOf(form.window_seconds),
  };
}

/** How a channel stands, as a state with icon and tone. */
export function channelState(channel) {
  if (!channel.enabled) return { name: "Off", icon: "idle", tone: "quiet" };
  if (channel.failed_at !== null) return { name: "Failing", icon: "crashed", tone: "warning" };
  if (channel.last_sent_at !== null) return { name: "Working", icon: "resolved", tone: "good" };
  return { name: "Not used yet", icon: "insufficient", tone: "quiet" };
}

/** What is sent to it: `warnings and critical alerts of project x; opened, resolved`. */
export function filterWords({ min_severity: least, project, changes }) {
  const severities = {
    info: "every alert",
    warning: "warnings and critical alerts",
    critical: "critical alerts only",
  }[least];
  const about = project === null ? "" : ` of project ${project}`;
  const kinds =
    changes.length === 0 ? "" : `; only when ${changes.map((kind) => CHANGE_NAMES[kind]).join(", ")}`;
  return `${severities}${about}${kinds}`;
}

/** When it was last sent to, or why it fails. */
export function channelNews(channel, nowMs) {
  const waits =
    channel.num_waiting > 0
      ? ` ${plural(channel.num_waiting, "change")} wait${channel.num_waiting === 1 ? "s" : ""}.`
      : "";
  if (channel.failed_at !== null) {
    return `Given up ${formatAge(channel.failed_at, nowMs)}: ${channel.problem || "no answer"}.${waits}`;
  }
  if (channel.last_sent_at !== null) return `Last sent ${formatAge(channel.last_sent_at, nowMs)}.${waits}`;
  return `Nothing sent yet.${waits}`;
}

const STATUS = {
  sent: { name: "Sent", icon: "resolved", tone: "good" },
  waiting: { name: "Being tried", icon: "running", tone: "quiet" },
  failed: { name: "Given up", icon: "crashed", tone: "critical" },
};

export const deliveryState = ({ status }) =>
  STATUS[status] ?? { name: status, icon: "insufficient", tone: "quiet" };

/** What a message told of: `test`, `digest of 7 changes`, or the titles of its alerts. */
export function deliveryWords({ kind, num_changes: count, changes }) {
  if (kind === "test") return "Test message";
  const titles = [
    ...new Set(changes.map((change) => change.title).filter((title) => typeof title === "string")),
  ];
  if (kind === "digest") return `Digest of ${plural(count, "change")}`;
  return titles[0] ?? plural(count, "change");
}

/** `HTTP 200`, the answer, and when it is tried again. */
export function answerWords({ status_code: code, answer, attempts, next_at: next }, nowMs) {
  const parts = [
    isNumber(code) ? `HTTP ${code}` : "",
    answer,
    attempts > 1 ? plural(attempts, "attempt") : "",
  ];
  const left = (Date.parse(next ?? "") - nowMs) / 1000;
  if (Number.isFinite(left))
    parts.push(left > 0 ? `tried again in ${formatDuration(left)}` : "about to be tried again");
  return parts.filter((text) => text !== "").join(" · ");
}

/** What a test came to. */
export function testWords(delivery) {
  const answer = [isNumber(delivery.status_code) ? `HTTP ${delivery.status_code}` : "", delivery.answer]
    .filter((text) => text !== "")
    .join(" · ");
  if (delivery.status === "sent") return `The test message was taken${answer === "" ? "" : `: ${answer}`}.`;
  return `The test message was not taken: ${answer || "no answer"}.`;
}
