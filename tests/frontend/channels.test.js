import assert from "node:assert/strict";
import test from "node:test";

import {
  EMPTY_CHANNEL,
  answerWords,
  changeOf,
  channelNews,
  channelState,
  deliveryWords,
  draftOf,
  filterWords,
  formOfChannel,
  testWords,
} from "../../frontend/collapsewatch_frontend/static/js/channels.js";

const CHANNEL = {
  channel_id: 1,
  name: "ops",
  kind: "webhook",
  target: "https://example.org/…",
  project: "sokoban",
  min_severity: "critical",
  changes: ["opened"],
  digest_after: 5,
  window_seconds: 60,
  enabled: true,
  num_waiting: 0,
  last_sent_at: null,
  failed_at: null,
  problem: "",
};
const NOW = Date.parse("2026-01-31T12:00:00Z");

test("a new channel has its address; an empty secret is made up by the server", () => {
  const draft = draftOf({
    ...EMPTY_CHANNEL,
    name: " ops ",
    url: " https://example.org/hook ",
    digest_after: "7",
  });
  assert.deepEqual(draft, {
    name: "ops",
    kind: "webhook",
    url: "https://example.org/hook",
    secret: null,
    min_severity: "warning",
    changes: [],
    digest_after: 7,
    window_seconds: 60,
    project: null,
    enabled: true,
  });
  assert.equal(draftOf({ ...EMPTY_CHANNEL, kind: "apprise", secret: "left over" }).secret, null);
});

test("the form of a channel that is there holds neither address nor secret, and leaves both as they are", () => {
  const form = formOfChannel(CHANNEL);
  assert.equal(form.url, "");
  assert.equal(form.secret, "");
  const change = changeOf(form);
  assert.equal("url" in change, false);
  assert.equal("secret" in change, false);
  assert.equal(change.project, "sokoban");
  assert.equal("all_projects" in change, false);
});

test("what was typed changes; no project means all of them", () => {
  const change = changeOf({
    ...formOfChannel(CHANNEL),
    url: "https://other.example/",
    secret: "s".repeat(16),
    project: "",
  });
  assert.equal(change.url, "https://other.example/");
  assert.equal(change.secret, "s".repeat(16));
  assert.equal(change.all_projects, true);
  assert.equal("project" in change, false);
});

test("a channel stands as it was last heard of", () => {
  assert.equal(channelState(CHANNEL).name, "Not used yet");
  assert.equal(channelState({ ...CHANNEL, last_sent_at: "2026-01-31T11:00:00Z" }).name, "Working");
  const failing = { ...CHANNEL, failed_at: "2026-01-31T11:59:00Z", problem: "HTTP 500", num_waiting: 2 };
  assert.equal(channelState(failing).name, "Failing");
  assert.equal(channelState({ ...failing, enabled: false }).name, "Off");
  assert.equal(channelNews(failing, NOW), "Given up 1 min ago: HTTP 500. 2 changes wait.");
  assert.equal(channelNews(CHANNEL, NOW), "Nothing sent yet.");
});

test("what a channel is told of, in words", () => {
  assert.equal(filterWords(CHANNEL), "critical alerts only of project sokoban; only when opened");
  assert.equal(
    filterWords({ ...CHANNEL, project: null, changes: [], min_severity: "warning" }),
    "warnings and critical alerts",
  );
});

test("a message names its alert, a digest its size", () => {
  const changes = [{ title: "Reward fell" }, { title: "Reward fell" }];
  assert.equal(deliveryWords({ kind: "change", num_changes: 1, changes }), "Reward fell");
  assert.equal(deliveryWords({ kind: "digest", num_changes: 7, changes }), "Digest of 7 changes");
  assert.equal(deliveryWords({ kind: "test", num_changes: 0, changes: [] }), "Test message");
  assert.equal(deliveryWords({ kind: "change", num_changes: 2, changes: [{}] }), "2 changes");
});

test("an answer tells when it is tried again", () => {
  const delivery = { status_code: 503, answer: "busy", attempts: 2, next_at: "2026-01-31T12:00:30Z" };
  assert.equal(answerWords(delivery, NOW), "HTTP 503 · busy · 2 attempts · tried again in 30 s");
  assert.equal(
    answerWords({ status_code: null, answer: "no answer", attempts: 1, next_at: null }, NOW),
    "no answer",
  );
});

test("a test says what came of it", () => {
  assert.equal(
    testWords({ status: "sent", status_code: 200, answer: "ok" }),
    "The test message was taken: HTTP 200 · ok.",
  );
  assert.equal(
    testWords({ status: "failed", status_code: null, answer: "no answer: refused" }),
    "The test message was not taken: no answer: refused.",
  );
});
