import assert from "node:assert/strict";
import test from "node:test";

import {
  accessOf,
  isAllowed,
  isInNoProject,
  may,
  noteProjects,
  noteSession,
  whereMay,
} from "../../frontend/collapsewatch_frontend/static/js/access.js";

const PROJECTS = [
  { id: 1, name: "mine", role: "admin" },
  { id: 2, name: "ours", role: "editor" },
  { id: 3, name: "theirs", role: "viewer" },
];
const session = (more = {}) => ({ needs_login: true, name: "ada", is_operator: false, roles: {}, ...more });

test("before anybody is known nothing may be done", () => {
  assert.equal(may("run.edit", "mine"), false);
  // A link's page never says who it is, whatever it reads.
  noteProjects(PROJECTS);
  assert.equal(may("run.edit", "mine"), false);
});

test("a role reaches as far as the table of the server says", () => {
  const access = accessOf(session(), PROJECTS);
  const allowed = (action) => PROJECTS.map(({ name }) => isAllowed(access, action, name));
  for (const action of ["run.edit", "run.share", "job.retry", "alert.handle", "rule.edit"])
    assert.deepEqual(allowed(action), [true, true, false], action);
  for (const action of [
    "run.delete",
    "channel.edit",
    "member.edit",
    "key.edit",
    "retention.edit",
    "audit.read",
  ])
    assert.deepEqual(allowed(action), [true, false, false], action);
});

test("what belongs to the whole service is for operators", () => {
  assert.equal(isAllowed(accessOf(session(), PROJECTS), "alert.handle", null), false);
  assert.equal(isAllowed(accessOf(session({ is_operator: true })), "alert.handle", null), true);
});

test("without a project it is asked whether there is one in which it may be done", () => {
  assert.equal(isAllowed(accessOf(session(), PROJECTS), "channel.edit"), true);
  assert.equal(isAllowed(accessOf(session(), PROJECTS.slice(1)), "channel.edit"), false);
  assert.equal(isAllowed(accessOf(session(), PROJECTS.slice(2)), "run.share"), false);
});

test("a project that is not known gives nobody a role", () => {
  assert.equal(isAllowed(accessOf(session(), PROJECTS), "run.edit", "other"), false);
  assert.equal(isAllowed(accessOf(session(), PROJECTS), "run.edit", "constructor"), false);
});

test("operators, and everybody where nobody signs in, may do everything", () => {
  const local = { needs_login: false, name: null, is_operator: true, roles: {} };
  for (const who of [local, session({ is_operator: true })])
    for (const project of ["mine", "other", null, undefined])
      assert.equal(isAllowed(accessOf(who), "run.delete", project), true);
});

test("roles of the session stand in where a list of projects does not say them", () => {
  const access = accessOf(session({ roles: { 1: "editor" } }), [{ id: 1, name: "mine" }]);
  assert.equal(isAllowed(access, "run.edit", "mine"), true);
});

test("a misspelt action is a mistake of the page", () => {
  assert.throws(() => isAllowed(accessOf(session()), "run.edti", "mine"), /no such action/);
});

test("what the page noted last holds", () => {
  noteSession(session());
  noteProjects(PROJECTS);
  assert.deepEqual(whereMay("run.share", ["mine", "ours", "theirs"]), ["mine", "ours"]);
  noteProjects([{ id: 1, name: "mine", role: "viewer" }]);
  assert.deepEqual(whereMay("run.share", ["mine", "ours", "theirs"]), []);
});

test("who is in no project is known to be so, operators never", () => {
  noteSession(session());
  noteProjects([]);
  assert.equal(isInNoProject(), true);
  noteProjects(PROJECTS.slice(2));
  assert.equal(isInNoProject(), false);
  noteSession(session({ is_operator: true }));
  noteProjects([]);
  assert.equal(isInNoProject(), false);
});
