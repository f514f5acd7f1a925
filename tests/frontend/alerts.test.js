import assert from "node:assert/strict";
import test from "node:test";

import {
  alertWhenWords,
  alertsOnSteps,
  documentTitle,
  isNews,
  openAlerts,
  severityInfo,
  sortAlerts,
  splitLead,
  urgentCount,
} from "../../frontend/collapsewatch_frontend/static/js/alerts.js";

const alert = (id, severity, opened_step, status = "open") => ({
  alert_id: id,
  severity,
  status,
  opened_step,
  opened_at: "2026-01-31T12:00:00Z",
});

test("open alerts come first, the most severe first, then the newest", () => {
  const sorted = sortAlerts([
    alert(1, "warning", 30),
    alert(2, "critical", 20, "resolved"),
    alert(3, "critical", 10),
    alert(4, "warning", 40),
    alert(5, "info", 50),
    alert(6, "warning", 60, "resolved"),
  ]);
  assert.deepEqual(
    sorted.map((a) => a.alert_id),
    [3, 4, 1, 5, 6, 2],
  );
});

test("sorting leaves the answer of the server as it was", () => {
  const alerts = [alert(1, "info", 1), alert(2, "critical", 2)];
  sortAlerts(alerts);
  assert.deepEqual(
    alerts.map((a) => a.alert_id),
    [1, 2],
  );
});

test("resolved alerts are not open", () => {
  assert.deepEqual(openAlerts([alert(1, "critical", 1, "resolved")]), []);
});

test("an alert of a replayed step is history, whatever its status says", () => {
  const replayed = { ...alert(1, "critical", 60), superseded: true };
  assert.deepEqual(openAlerts([replayed]), []);
  const sorted = sortAlerts([replayed, alert(2, "info", 5)]);
  assert.deepEqual(
    sorted.map((a) => a.alert_id),
    [2, 1],
  );
});

test("alerts about no step come before those of a step, and have no place in a figure", () => {
  const stalled = { ...alert(1, "warning", null), opened_at: "2026-01-31T11:00:00Z" };
  const queue = { ...alert(4, "warning", null), opened_at: "2026-01-31T11:30:00Z" };
  const all = [alert(2, "warning", 10), stalled, alert(3, "warning", 20), queue];
  assert.deepEqual(
    sortAlerts(all).map((a) => a.alert_id),
    [4, 1, 3, 2],
  );
  assert.deepEqual(
    alertsOnSteps(all).map((a) => a.alert_id),
    [2, 3],
  );
});

test("alerts of replayed steps are drawn only beside what they were about", () => {
  const all = [alert(1, "warning", 10), { ...alert(2, "warning", 60), superseded: true }];
  assert.equal(alertsOnSteps(all).length, 1);
  assert.equal(alertsOnSteps(all, { earlier: true }).length, 2);
});

test("an alert tells its step where it has one, else only its time", () => {
  const now = Date.parse("2026-01-31T12:05:00Z");
  const base = { opened_at: "2026-01-31T12:00:00Z", resolved_step: null, resolved_at: null };
  assert.equal(alertWhenWords({ ...base, opened_step: 1200 }, now), "opened at step 1,200, 5 min ago");
  assert.equal(alertWhenWords({ ...base, opened_step: null }, now), "opened 5 min ago");
  assert.equal(
    alertWhenWords({ ...base, opened_step: 3, resolved_step: 9, resolved_at: base.opened_at }, now),
    "opened at step 3, 5 min ago; resolved at step 9",
  );
  assert.equal(
    alertWhenWords({ ...base, opened_step: null, resolved_at: "2026-01-31T12:04:30Z" }, now),
    "opened 5 min ago; resolved 30 s ago",
  );
});

test("what opens, grows graver or wakes up is news; what somebody did by hand is not", () => {
  const kinds = ["opened", "escalated", "acknowledged", "snoozed", "snooze_ended", "reopened", "resolved"];
  assert.deepEqual(
    kinds.filter((change) => isNews({ change })),
    ["opened", "escalated", "snooze_ended"],
  );
});

test("notes are not urgent", () => {
  assert.equal(urgentCount({ critical: 1, warning: 2, info: 9 }), 3);
  assert.equal(urgentCount(undefined), 0);
});

test("the tab's title counts urgent alerts", () => {
  assert.equal(documentTitle("grpo", 2), "(2) grpo · collapsewatch");
  assert.equal(documentTitle("", 0), "collapsewatch");
});

test("an unknown severity is shown as a note", () => {
  assert.equal(severityInfo("catastrophe").name, "Note");
});

test("the lead is the first sentence, and decimals end no sentence", () => {
  const message = "Skill fell to 0.21 (95 % 0.10 to 0.30). H(Z|X) stayed at 0.95 × baseline.";
  assert.deepEqual(splitLead(message), {
    lead: "Skill fell to 0.21 (95 % 0.10 to 0.30).",
    rest: "H(Z|X) stayed at 0.95 × baseline.",
  });
  assert.deepEqual(splitLead("Only one."), { lead: "Only one.", rest: "" });
});
