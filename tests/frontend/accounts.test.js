import assert from "node:assert/strict";
import test from "node:test";

import {
  accountWords,
  daysOf,
  dueWords,
  inviteWords,
  keyState,
  keyWords,
  lengthWords,
  nameProblem,
  outcomeState,
  passwordProblem,
  providerWords,
  refusalWords,
  removesMore,
  retentionLines,
  sentence,
  sortKeys,
  standingLines,
} from "../../frontend/collapsewatch_frontend/static/js/accounts.js";

const NOW = Date.parse("2026-03-01T12:00:00Z");
const at = (days) => new Date(NOW + days * 86_400_000).toISOString();
const KEY = { id: 1, created_at: at(-2), expires_at: null, last_used_at: null, revoked_at: null };

test("names are what the server takes: short names and addresses", () => {
  for (const name of ["ada", "Ada.L", "ada+x@example.org", "7"]) assert.equal(nameProblem(name), "", name);
  for (const name of ["", " ada", "-a", "a b", "a/b", "ä", "a".repeat(101)])
    assert.notEqual(nameProblem(name), "", name);
});

test("a password is judged by its length, not by its signs", () => {
  assert.equal(passwordProblem("correct horse", "ada"), "");
  assert.match(passwordProblem("short"), /at least 10 characters; this has 5/);
  assert.match(passwordProblem("x1".repeat(101)), /at most 200/);
  assert.match(passwordProblem("aaaaaaaaaaaa"), /over and over/);
  assert.match(passwordProblem("My-ADA-password", "ada"), /hold the name/);
  // Signs are counted, not the halves that some are stored as.
  assert.match(passwordProblem("🐎🐎🐎🐎🐎abcd"), /this has 9/);
});

test("while it is typed only its length is told", () => {
  assert.match(lengthWords(""), /At least 10/);
  assert.equal(lengthWords("123456789"), "1 more character to go.");
  assert.equal(lengthWords("1234567890"), "Long enough; longer is better.");
  assert.equal(lengthWords("a".repeat(16)), "Long.");
});

test("who was throttled is told when to come again", () => {
  assert.equal(
    refusalWords({ status: 429, retryAfterSeconds: 45 }),
    "Too many tries. Try again in 45 seconds.",
  );
  assert.equal(
    refusalWords({ status: 429, retryAfterSeconds: 601 }),
    "Too many tries. Try again in 11 minutes.",
  );
  assert.match(refusalWords({ status: 429, retryAfterSeconds: null }), /60 seconds/);
});

test("a refusal does not tell whether it was the name or the password", () => {
  assert.equal(
    refusalWords({ status: 401, code: "wrong_credentials", message: "x" }),
    "The name or the password is wrong.",
  );
  assert.match(refusalWords({}), /does not answer/);
  assert.equal(refusalWords({ status: 409, message: "there is somebody" }), "There is somebody.");
  assert.equal(sentence(""), "");
});

test("a link says what it gives", () => {
  assert.match(
    inviteWords({ purpose: "join", makes_operator: true, role: null, label: "x" }),
    /operate this service/,
  );
  assert.match(
    inviteWords({ purpose: "join", makes_operator: false, role: "viewer", label: "x", project: "p" }),
    /project p as Viewer: you read/,
  );
  assert.match(
    inviteWords({ purpose: "password", makes_operator: false, role: null, label: "ada" }),
    /new password for ada/,
  );
});

test("roles are told by project, and who has none is told what to do", () => {
  assert.deepEqual(
    standingLines({
      isOperator: false,
      roles: new Map([
        ["b", "viewer"],
        ["a", "admin"],
      ]),
    }),
    ["a: Admin", "b: Viewer"],
  );
  assert.match(standingLines({ isOperator: false, roles: new Map() })[0], /Ask an admin/);
  assert.match(standingLines({ isOperator: true, roles: new Map() })[0], /everything/);
});

test("an account that is closed is said to be so, whenever it was seen", () => {
  const account = { signs_in_by: "password", last_seen_at: at(-1), closed_at: null };
  assert.match(accountWords(account, NOW), /^by password · seen 1 d ago/);
  assert.match(accountWords({ ...account, closed_at: at(-2) }, NOW), /^closed 2 d ago/);
});

test("a key is good until it ends or is revoked", () => {
  assert.equal(keyState(KEY, NOW).id, "good");
  assert.equal(keyState({ ...KEY, expires_at: at(30) }, NOW).id, "good");
  assert.equal(keyState({ ...KEY, expires_at: at(3) }, NOW).id, "ending");
  assert.equal(keyState({ ...KEY, expires_at: at(0) }, NOW).id, "expired");
  assert.equal(keyState({ ...KEY, expires_at: at(3), revoked_at: at(-1) }, NOW).id, "revoked");
});

test("keys that are over stand last", () => {
  const keys = [
    { ...KEY, id: 1 },
    { ...KEY, id: 2, revoked_at: at(-1) },
    { ...KEY, id: 3 },
  ];
  assert.deepEqual(
    sortKeys(keys, NOW).map(({ id }) => id),
    [3, 1, 2],
  );
});

test("a key tells its use and its end", () => {
  const format = (iso) => iso.slice(0, 10);
  assert.match(keyWords(KEY, NOW, format), /^made 2 d ago · never used · does not expire$/);
  assert.match(
    keyWords({ ...KEY, last_used_at: at(-1), expires_at: at(1) }, NOW, format),
    /used 1 d ago · until 2026-03-02$/,
  );
  assert.match(keyWords({ ...KEY, expires_at: at(-1) }, NOW, format), /expired 2026-02-28$/);
});

test("days are at least one, or none is said", () => {
  assert.deepEqual(["", " 30 ", "1,5", "0.5", "-1", "x", "Infinity", "36501"].map(daysOf), [
    null,
    30,
    1.5,
    ...Array(5).fill(undefined),
  ]);
});

test("what is removed is said, with when", () => {
  assert.match(
    retentionLines({ text_days: null, run_days: null }).join(" "),
    /kept as long as its run.*until somebody deletes/,
  );
  const lines = retentionLines({ text_days: 30, run_days: 1 });
  assert.match(lines[0], /removed 30 days after it came; metrics and alerts stay/);
  assert.match(lines[1], /deleted for good 1 day after/);
});

test("what is due is said before it is gone", () => {
  assert.equal(dueWords({ num_texts_due: 0, num_runs_due: 0 }), "");
  assert.equal(
    dueWords({ num_texts_due: 1, num_runs_due: 2 }),
    "Due now: the texts of 1 batch and 2 runs. They go within minutes.",
  );
});

test("only what removes sooner has to be confirmed", () => {
  const kept = { text_days: null, run_days: 90 };
  assert.equal(removesMore(kept, { text_days: 30, run_days: 90 }), true);
  assert.equal(removesMore(kept, { text_days: null, run_days: 89 }), true);
  assert.equal(removesMore(kept, { text_days: null, run_days: null }), false);
  assert.equal(removesMore(kept, { text_days: null, run_days: 91 }), false);
});

test("what was refused is told apart from what was done", () => {
  assert.equal(outcomeState("done").tone, "good");
  assert.equal(outcomeState("failed").name, "Failed");
  assert.equal(outcomeState("wrong_credentials").name, "Refused: wrong credentials");
});

test("why another service signed nobody in has a sentence for each of the server's words", () => {
  const words = ["unreachable", "refused", "expired", "uninvited", "unnamed", "taken", "closed", "failed"];
  const told = words.map((word) => providerWords(word, "Example"));
  assert.equal(new Set(told).size, words.length);
  for (const each of told) assert.match(each, /^Signing in with Example did not work\. [A-Z].*\.$/);
  // What somebody wrote into a link is not said.
  assert.equal(providerWords("youwonaprize", "Example"), providerWords("failed", "Example"));
});
