import assert from "node:assert/strict";
import test from "node:test";

import {
  NO_NOTICES,
  noticeOf,
  parseChoice,
  permissionWords,
} from "../../frontend/collapsewatch_frontend/static/js/notices.js";

const EVENT = {
  change: "opened",
  change_id: 41,
  alert_id: 12,
  severity: "critical",
  title: "Input dependence fell",
  project: "sokoban",
  step: 1041,
};
const ON = { enabled: true, warnings: false, projects: [] };

test("nothing is told of before somebody asks for it", () => {
  assert.equal(noticeOf(EVENT, NO_NOTICES), null);
  assert.deepEqual(parseChoice(null), NO_NOTICES);
  assert.deepEqual(parseChoice("{"), NO_NOTICES);
  assert.deepEqual(parseChoice('{"enabled": "yes", "projects": [1, "a"]}'), {
    ...NO_NOTICES,
    projects: ["a"],
  });
});

test("a critical alert is told of with its place, under one tag in all tabs", () => {
  assert.deepEqual(noticeOf(EVENT, ON), {
    title: "Critical: Input dependence fell",
    body: "sokoban · step 1,041",
    tag: "collapsewatch-change-41",
    alertId: 12,
  });
});

test("warnings only when asked for, notes never", () => {
  const warning = { ...EVENT, severity: "warning" };
  assert.equal(noticeOf(warning, ON), null);
  assert.notEqual(noticeOf(warning, { ...ON, warnings: true }), null);
  assert.equal(noticeOf({ ...EVENT, severity: "info" }, { ...ON, warnings: true }), null);
});

test("only of the watched projects; the service belongs to none", () => {
  const watched = { ...ON, projects: ["frozenlake"] };
  assert.equal(noticeOf(EVENT, watched), null);
  assert.notEqual(noticeOf({ ...EVENT, project: "frozenlake" }, watched), null);
  const service = { ...EVENT, project: null, step: null };
  assert.equal(noticeOf(service, watched), null);
  assert.equal(noticeOf(service, ON).body, "the service");
});

test("what people did is no notification", () => {
  for (const change of ["acknowledged", "snoozed", "resolved", "reopened"]) {
    assert.equal(noticeOf({ ...EVENT, change }, ON), null, change);
  }
  assert.match(noticeOf({ ...EVENT, change: "snooze_ended" }, ON).body, /snooze is over/);
});

test("the switch says why it is off", () => {
  assert.match(permissionWords("denied", ON), /blocks/);
  assert.match(permissionWords("unsupported", ON), /https/);
  assert.match(permissionWords("granted", ON), /^On/);
  assert.match(permissionWords("default", NO_NOTICES), /^Off/);
});
