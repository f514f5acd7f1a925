import assert from "node:assert/strict";
import test from "node:test";

import {
  allowedActions,
  choiceCounts,
  commonActions,
  countsWords,
  formatMoment,
  handleItems,
  inboxQuery,
  isNarrowed,
  loadInbox,
  outcomeWords,
  ruleChoices,
  secondsUntilTomorrow,
  snoozeSeconds,
  standingWords,
} from "../../frontend/collapsewatch_frontend/static/js/inbox.js";

const NO_FILTER = { status: "", severity: "", project: "", run: "", rule: "", text: "" };
const item = (thread, state = "open", extra = {}) => ({
  alert_id: thread * 10,
  thread_id: thread,
  title: `alert ${thread}`,
  state,
  ended: null,
  snoozed_until: null,
  ...extra,
});

test("without a choice the inbox asks for what is not resolved, and for all without a state", () => {
  assert.deepEqual(inboxQuery(NO_FILTER).status, ["open", "acknowledged", "snoozed"]);
  assert.deepEqual(inboxQuery({ ...NO_FILTER, status: "snoozed" }).status, ["snoozed"]);
  assert.deepEqual(inboxQuery({ ...NO_FILTER, status: "all" }).status, []);
  assert.deepEqual(inboxQuery({ ...NO_FILTER, status: "nonsense" }).status, [
    "open",
    "acknowledged",
    "snoozed",
  ]);
  assert.equal(inboxQuery({ ...NO_FILTER, text: "  fell " }).text, "fell");
});

test("each state tells how many it would show", () => {
  const counts = Object.fromEntries(
    choiceCounts({ open: 3, acknowledged: 1, snoozed: 2, resolved: 18 }).map(({ id, count }) => [id, count]),
  );
  assert.deepEqual(counts, { "": 6, open: 3, acknowledged: 1, snoozed: 2, resolved: 18, all: 24 });
});

test("only filters beside the state narrow the list", () => {
  assert.equal(isNarrowed({ ...NO_FILTER, status: "resolved" }), false);
  assert.equal(isNarrowed({ ...NO_FILTER, text: "  " }), false);
  assert.equal(isNarrowed({ ...NO_FILTER, rule: "own/4" }), true);
});

/** A server with `total` items, newest first, whose cursor is the last alert's id. */
function server(total, asked = []) {
  const all = Array.from({ length: total }, (_, i) => item(total - i));
  return async ({ cursor, limit }) => {
    asked.push({ cursor, limit });
    const rest = all.filter((each) => cursor === undefined || each.alert_id < Number(cursor));
    const items = rest.slice(0, limit);
    const next = rest.length > limit ? String(items[items.length - 1].alert_id) : null;
    return { items, counts: { open: total }, rules: [], next_cursor: next };
  };
}

test("pages are read until as many items are there as are wanted", async () => {
  const asked = [];
  const found = await loadInbox(server(1_200, asked), NO_FILTER, 700);
  assert.equal(found.items.length, 700);
  assert.equal(found.hasMore, true);
  assert.deepEqual(
    asked.map(({ limit }) => limit),
    [500, 200],
  );
  assert.equal(new Set(found.items.map((each) => each.thread_id)).size, 700);
});

test("the end of the list ends the reading", async () => {
  const found = await loadInbox(server(60), NO_FILTER, 100);
  assert.equal(found.items.length, 60);
  assert.equal(found.hasMore, false);
  assert.deepEqual((await loadInbox(server(0), NO_FILTER, 50)).items, []);
});

test("an item that moves between two pages is shown once", async () => {
  const pages = [
    { items: [item(3), item(2)], next_cursor: "20" },
    { items: [item(2), item(1)], next_cursor: null },
  ];
  const found = await loadInbox(async () => ({ counts: {}, rules: [], ...pages.shift() }), NO_FILTER, 4);
  assert.deepEqual(
    found.items.map((each) => each.thread_id),
    [3, 2, 1],
  );
});

test("what may be done follows from where an item stands", () => {
  assert.deepEqual(allowedActions(item(1)), ["acknowledge", "snooze", "resolve"]);
  assert.deepEqual(allowedActions(item(1, "acknowledged")), ["snooze", "resolve", "reopen"]);
  assert.deepEqual(allowedActions(item(1, "resolved", { ended: "rule" })), ["reopen"]);
  for (const ended of ["superseded", "withdrawn", "switched_off"]) {
    assert.deepEqual(allowedActions(item(1, "resolved", { ended })), [], ended);
  }
});

test("of several items each action is about those that allow it", () => {
  const items = [item(1), item(2, "acknowledged"), item(3, "resolved", { ended: "hand" })];
  const choices = Object.fromEntries(
    commonActions(items).map(({ kind, items: some }) => [kind, some.map((each) => each.thread_id)]),
  );
  assert.deepEqual(choices, { acknowledge: [1], snooze: [1, 2], resolve: [1, 2], reopen: [2, 3] });
  assert.deepEqual(commonActions([]), []);
});

test("one refusal keeps the others from nothing and is told", async () => {
  const seen = [];
  const outcome = await handleItems(
    async (alertId, kind, body) => {
      seen.push([alertId, kind, body.by]);
      if (alertId === 20) throw new Error("the alert is resolved; reopen it first");
    },
    [item(1), item(2), item(3)],
    "acknowledge",
    { by: "Ada" },
  );
  assert.deepEqual(
    seen.map(([alertId]) => alertId),
    [10, 20, 30],
  );
  assert.equal(
    outcomeWords("acknowledge", outcome),
    "2 alerts acknowledged. “alert 2” could not be acknowledged: the alert is resolved; reopen it first.",
  );
});

test("a snooze until tomorrow ends at eight in the morning", () => {
  const evening = new Date(2026, 0, 31, 20, 0, 0);
  assert.equal(secondsUntilTomorrow(evening), 12 * 3600);
  assert.equal(snoozeSeconds("tomorrow", "", evening), 12 * 3600);
});

test("an own time is in hours, more than 0 and at most 90 days", () => {
  const now = new Date();
  assert.equal(snoozeSeconds("own", "1.5", now), 5400);
  assert.equal(snoozeSeconds("own", "1,5", now), 5400);
  assert.equal(snoozeSeconds("own", String(90 * 24), now), 90 * 86_400);
  for (const wrong of ["", " ", "0", "-1", "abc", "2161", "1e9"]) {
    assert.equal(snoozeSeconds("own", wrong, now), null, wrong);
  }
  assert.equal(snoozeSeconds("1h", "", now), 3600);
  assert.equal(snoozeSeconds("8h", "", now), 28_800);
});

test("where an item stands says who put it there, and why it ended", () => {
  const now = Date.parse("2026-01-31T12:10:00Z");
  const last = { kind: "acknowledge", by: "Ada", at: "2026-01-31T12:06:00Z", note: "" };
  assert.equal(standingWords(item(1), now), "Open");
  assert.equal(
    standingWords(item(1, "acknowledged", { last_action: last }), now),
    "Acknowledged by Ada, 4 min ago",
  );
  assert.equal(standingWords(item(1, "acknowledged"), now), "Acknowledged");
  assert.equal(standingWords(item(1, "resolved", { ended: "rule" }), now), "Resolved: by its rule");
  const byHand = { ...last, kind: "resolve", by: "" };
  assert.equal(
    standingWords(item(1, "resolved", { ended: "hand", last_action: byHand }), now),
    "Resolved by hand, 4 min ago",
  );
  assert.match(standingWords(item(1, "resolved", { ended: "superseded" }), now), /replayed/);
});

test("a moment of today is a clock, any other has its day", () => {
  const now = new Date(2026, 0, 31, 9, 0).getTime();
  assert.equal(formatMoment(new Date(2026, 0, 31, 14, 5).toISOString(), now), "14:05");
  assert.equal(formatMoment(new Date(2026, 1, 2, 8, 0).toISOString(), now), "2 Feb, 08:00");
  assert.equal(formatMoment(null, now), "–");
});

test("the head of the inbox counts what is not resolved", () => {
  assert.equal(countsWords({ open: 3, acknowledged: 0, snoozed: 1, resolved: 9 }), "3 open · 1 snoozed");
  assert.equal(countsWords({ resolved: 9 }), "nothing unresolved");
});

test("rules to choose from have names, one's own those that people gave", () => {
  const own = [{ rule: "own/4", name: "Reward is gone" }];
  assert.deepEqual(ruleChoices(["own/9", "own/4", "input_dependence"], own), [
    { id: "own/9", name: "deleted rule own/9" },
    { id: "input_dependence", name: "input dependence" },
    { id: "own/4", name: "Reward is gone" },
  ]);
});
