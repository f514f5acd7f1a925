/** The inbox of alerts: filters, states, what may be done to an item, and its pages. Pure. */

import { formatAge, formatStep, humanise, isNumber, plural } from "./format.js";

/** What the choice of a state asks the server for; the first one is what stands without a choice. */
export const STATUS_CHOICES = [
  { id: "", name: "Unresolved", states: ["open", "acknowledged", "snoozed"] },
  { id: "open", name: "Open", states: ["open"] },
  { id: "acknowledged", name: "Acknowledged", states: ["acknowledged"] },
  { id: "snoozed", name: "Snoozed", states: ["snoozed"] },
  { id: "resolved", name: "Resolved", states: ["resolved"] },
  { id: "all", name: "All", states: ["open", "acknowledged", "snoozed", "resolved"] },
];

export const STATES = {
  open: { name: "Open", icon: "open", tone: "warning" },
  acknowledged: { name: "Acknowledged", icon: "seen", tone: "quiet" },
  snoozed: { name: "Snoozed", icon: "idle", tone: "quiet" },
  resolved: { name: "Resolved", icon: "resolved", tone: "good" },
};

export function alertStateInfo(state) {
  if (Object.hasOwn(STATES, state)) return STATES[state];
  return { name: String(state), icon: "insufficient", tone: "quiet" };
}

const choiceOf = (status) => STATUS_CHOICES.find(({ id }) => id === status) ?? STATUS_CHOICES[0];

/** The server's query for the filters of an address. */
export function inboxQuery({ status = "", severity = "", project = "", run = "", rule = "", text = "" }) {
  const { id, states } = choiceOf(status);
  return { status: id === "all" ? [] : states, severity, project, run, rule, text: text.trim() };
}

/** How many items each choice of a state would show. */
export function choiceCounts(counts) {
  return STATUS_CHOICES.map((choice) => ({
    ...choice,
    count: choice.states.reduce((sum, state) => sum + (counts[state] ?? 0), 0),
  }));
}

/** Whether anything but the state is asked for. */
export const isNarrowed = ({ severity, project, run, rule, text }) =>
  [severity, project, run, rule, text.trim()].some((value) => value !== "");

export const PAGE_SIZE = 50;
const MOST_AT_ONCE = 500;

/**
 * The newest `wanted` items under the filters, page by page: `{items, counts, rules, hasMore}`. `getPage` asks
 * the server. An item that moves while the pages are read is kept once.
 */
export async function loadInbox(getPage, filters, wanted) {
  const items = new Map();
  let cursor;
  let page;
  do {
    const limit = Math.min(MOST_AT_ONCE, Math.max(1, wanted - items.size));
    page = await getPage({ ...inboxQuery(filters), cursor, limit });
    for (const item of page.items) if (!items.has(item.thread_id)) items.set(item.thread_id, item);
    cursor = page.next_cursor;
  } while (cursor && items.size < wanted);
  return { items: [...items.values()], counts: page.counts, rules: page.rules, hasMore: Boolean(cursor) };
}

const HISTORY = ["superseded", "withdrawn", "switched_off"];

/** What may be done to an item where it stands. */
export function allowedActions({ state, ended }) {
  if (state === "resolved") return HISTORY.includes(ended) ? [] : ["reopen"];
  if (state === "open") return ["acknowledge", "snooze", "resolve"];
  if (state === "acknowledged") return ["snooze", "resolve", "reopen"];
  return ["acknowledge", "snooze", "resolve", "reopen"];
}

/** What may be done to at least one of several, each with the items that it is about. */
export function commonActions(items) {
  return Object.keys(ACTIONS)
    .map((kind) => ({ kind, items: items.filter((item) => allowedActions(item).includes(kind)) }))
    .filter((choice) => choice.items.length > 0);
}

export const ACTIONS = {
  acknowledge: { name: "Acknowledge", past: "acknowledged", hint: "Says that somebody looks after it." },
  snooze: {
    name: "Snooze",
    past: "snoozed",
    hint: "Keeps it quiet for a while; if it is still open then, it tells of itself again.",
  },
  resolve: { name: "Resolve", past: "resolved", hint: "Closes it, whatever its rule says." },
  reopen: {
    name: "Reopen",
    past: "reopened",
    hint: "Opens it again; it stays open until somebody resolves it.",
  },
};

const HOUR = 3600;
export const MOST_SNOOZE_HOURS = 90 * 24;

/** Seconds until eight o'clock tomorrow morning, in the clock of the person who asks. */
export function secondsUntilTomorrow(now) {
  const then = new Date(now.getFullYear(), now.getMonth(), now.getDate() + 1, 8);
  return Math.max(1, Math.round((then.getTime() - now.getTime()) / 1000));
}

/** Seconds of a choice: `1h`, `8h`, `tomorrow`, or `own` with its hours; null when the hours make no sense. */
export function snoozeSeconds(choice, hours, now) {
  if (choice === "1h") return HOUR;
  if (choice === "8h") return 8 * HOUR;
  if (choice === "tomorrow") return secondsUntilTomorrow(now);
  const given = Number(String(hours).trim().replace(",", "."));
  const isGiven = String(hours).trim() !== "" && isNumber(given);
  return isGiven && given > 0 && given <= MOST_SNOOZE_HOURS ? Math.max(1, Math.round(given * HOUR)) : null;
}

/**
 * Does one thing to several items and tells what came of it: `{done, failed: [{item, message}]}`. One that
 * is refused, because somebody else was quicker, keeps the others from nothing.
 */
export async function handleItems(handle, items, kind, body) {
  const failed = [];
  let done = 0;
  for (const item of items) {
    try {
      await handle(item.alert_id, kind, body);
      done += 1;
    } catch (error) {
      failed.push({ item, message: error.message });
    }
  }
  return { done, failed };
}

/** `3 alerts acknowledged`, and what did not work. */
export function outcomeWords(kind, { done, failed }) {
  const good = done === 0 ? "" : `${plural(done, "alert")} ${ACTIONS[kind].past}.`;
  const bad = failed.map(
    ({ item, message }) => `“${item.title}” could not be ${ACTIONS[kind].past}: ${message}.`,
  );
  return [good, ...bad].filter((text) => text !== "").join(" ");
}

const ENDED = {
  rule: "by its rule",
  hand: "by hand",
  superseded: "its step was replayed",
  withdrawn: "withdrawn: with all steps in order it never was",
  switched_off: "its rule was switched off",
};

/** `Snoozed until 14:00`, `Resolved by its rule`, with who did it last where that is known. */
export function standingWords(item, nowMs) {
  const { name } = alertStateInfo(item.state);
  const last = item.last_action ?? null;
  const who = last !== null && last.by !== "" ? ` by ${last.by}` : "";
  if (item.state === "resolved") {
    if (item.ended === "hand" && last !== null)
      return `${name}${who || " by hand"}, ${formatAge(last.at, nowMs)}`;
    return item.ended === null ? name : `${name}: ${ENDED[item.ended] ?? item.ended}`;
  }
  if (item.state === "snoozed") return `${name}${who} until ${formatMoment(item.snoozed_until, nowMs)}`;
  if (item.state === "acknowledged" && last !== null) return `${name}${who}, ${formatAge(last.at, nowMs)}`;
  return name;
}

/** `14:05` today, else `12 Feb, 14:05`, in local time. */
export function formatMoment(isoTime, nowMs) {
  const date = new Date(isoTime ?? NaN);
  if (Number.isNaN(date.getTime())) return "–";
  const clock = `${String(date.getHours()).padStart(2, "0")}:${String(date.getMinutes()).padStart(2, "0")}`;
  if (date.toDateString() === new Date(nowMs).toDateString()) return clock;
  const day = date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return `${day}, ${clock}`;
}

/** What a rule is called in a list to choose from: one's own by its name, the others by what they are. */
export function ruleChoices(rules, ownRules) {
  const names = new Map(ownRules.map(({ rule, name }) => [rule, name]));
  return rules
    .map((rule) => ({
      id: rule,
      name: names.get(rule) ?? (isOwnRule(rule) ? `deleted rule ${rule}` : humanise(rule)),
    }))
    .sort((a, b) => a.name.localeCompare(b.name));
}

export const isOwnRule = (rule) => rule.startsWith("own/");

/** `step 41`, or nothing where the alert is about no step. */
export const itemStepWords = ({ opened_step: step }) => (isNumber(step) ? `step ${formatStep(step)}` : "");

/** `3 open · 1 acknowledged · 2 snoozed`; nothing is said of what there is none of. */
export function countsWords(counts) {
  const parts = ["open", "acknowledged", "snoozed"]
    .filter((state) => (counts[state] ?? 0) > 0)
    .map((state) => `${formatStep(counts[state])} ${state}`);
  return parts.length === 0 ? "nothing unresolved" : parts.join(" · ");
}
