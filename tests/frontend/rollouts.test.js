import assert from "node:assert/strict";
import test from "node:test";

import {
  actionOfKey,
  markText,
  neighbour,
  responseParts,
  rolloutFacts,
  searchWords,
  SHADE_LIMITS,
  shadeOf,
  shareAt,
  shareSeries,
  stepFacts,
  templateWords,
  tokensFact,
  tokenWords,
  wantedPattern,
} from "../../frontend/collapsewatch_frontend/static/js/rollouts.js";
import { parseRoute, rolloutsHref } from "../../frontend/collapsewatch_frontend/static/js/routes.js";

const TAGS = { open_tag: "<think>", close_tag: "</think>" };
const kinds = (response, tags = TAGS) =>
  responseParts(response, tags).map(({ kind, text }) => `${kind}:${text}`);

test("a response is cut at its tags, and no letter of it is lost", () => {
  assert.deepEqual(kinds("so it is</think>go <b>"), ["reasoning:so it is", "tag:</think>", "action:go <b>"]);
  assert.deepEqual(kinds(" \n<think>so</think>"), ["tag: \n<think>", "reasoning:so", "tag:</think>"]);
  assert.deepEqual(kinds("never ends"), ["response:never ends"]);
  assert.deepEqual(kinds("<think>never ends"), ["tag:<think>", "response:never ends"]);
  assert.deepEqual(kinds("a</think>b", { open_tag: null, close_tag: null }), ["response:a</think>b"]);
  assert.deepEqual(kinds(""), []);
});

const marks = (text, options) =>
  markText(text, options)
    .map(({ text: part, isShared, isFound }) => {
      const shared = isShared ? `[${part}]` : part;
      return isFound ? `{${shared}}` : shared;
    })
    .join("");

test("the template and what was searched for are marked, also where they overlap", () => {
  const phrases = ["let me think"];
  assert.equal(marks("So let me think, yes", { phrases }), "So [let me think], yes");
  assert.equal(marks("a key, A  KEY", { pattern: wantedPattern("a key") }), "{a key}, {A  KEY}");
  assert.equal(
    marks("So let me think twice", { phrases, pattern: wantedPattern("me think twice") }),
    "So [let ]{[me think]}{ twice}",
  );
  assert.equal(marks("", { phrases, pattern: wantedPattern("x") }), "");
  const text = "x let me think \u2028 let ME think <b>";
  const parts = markText(text, { phrases, pattern: wantedPattern("think") });
  assert.equal(parts.map((part) => part.text).join(""), text);
});

test("text is searched as it stands: no letter of it is a pattern", () => {
  assert.equal(marks("a.b a+b", { pattern: wantedPattern("a.b") }), "{a.b} a+b");
  assert.equal(marks("(x)[y]{z}/\\|^$", { pattern: wantedPattern("(x)[y]{z}/\\|^$") }), "{(x)[y]{z}/\\|^$}");
  assert.equal(wantedPattern("  "), null);
  // Beside a sign a space may be missing, between letters it may not.
  assert.equal(marks("step, by钥匙", { pattern: wantedPattern("step , by 钥 匙") }), "{step, by钥匙}");
  assert.equal(marks("ab", { pattern: wantedPattern("a b") }), "ab");
});

test("the less a token was to be expected, the darker it is", () => {
  assert.equal(shadeOf(0), 0);
  assert.equal(shadeOf(Math.log(0.89)), 1);
  assert.equal(shadeOf(Math.log(0.2)), 3);
  assert.equal(shadeOf(-50), SHADE_LIMITS.length);
  const levels = [0, -0.05, -0.3, -0.9, -2, -3, -4.5, -8].map(shadeOf);
  assert.deepEqual(
    levels,
    [...levels].sort((a, b) => a - b),
  );
  assert.equal(tokenWords(-0.5, 7), "token 7: log p −0.500 nats, p 0.607");
});

test("what the shades are of is said, and what is left out of them", () => {
  const series = {
    source: "scorer",
    label: "policy",
    log_probs: [-1, -0.5],
    num_left_out: 0,
    pieces: ["a", "b"],
  };
  assert.equal(tokensFact(series), "2 tokens by policy: mean log p −0.750 nats per token.");
  const pattern = tokensFact({ ...series, label: "policy checkpoint {policy_version}" });
  assert.match(pattern, /^2 tokens by policy checkpoint, one per policy version: mean/);
  assert.match(tokensFact({ ...series, source: "sampler" }), /^2 tokens as the trainer sent them: mean/);
  const cut = tokensFact({ ...series, num_left_out: 1200, pieces: null });
  assert.match(cut, /1,200 more are not shown\. Nobody said which text/);
});

test("keys move between rollouts and steps, but not while somebody writes", () => {
  const press = (key, rest = {}) => actionOfKey({ key, ...rest });
  assert.equal(press("j"), "next");
  assert.equal(press("ArrowLeft"), "previous");
  assert.equal(press("]"), "next step");
  assert.equal(press("/"), "search");
  assert.equal(press("j", { isTyping: true }), null);
  assert.equal(press("j", { ctrlKey: true }), null);
  assert.equal(press("x"), null);
});

test("the neighbour of a rollout that is not in the list is its first", () => {
  const items = [{ index: 4 }, { index: 2 }, { index: 9 }];
  const at = (index) => (item) => item.index === index;
  assert.equal(neighbour(items, at(2), 1).index, 9);
  assert.equal(neighbour(items, at(2), -1).index, 4);
  assert.equal(neighbour(items, at(9), 1), null);
  assert.equal(neighbour(items, at(7), 1).index, 4);
  assert.equal(neighbour([], at(1), 1), null);
});

test("facts name what is known", () => {
  assert.equal(
    rolloutFacts({ reward: 0.5, success: false, num_turns: 3 }),
    "reward 0.500 · failed · 3 turns",
  );
  assert.equal(rolloutFacts({ reward: null, success: null, num_turns: 1 }), "no reward");
  assert.equal(stepFacts({ num_rollouts: 1, attempt_id: "default", policy_version: null }), "1 rollout");
  assert.equal(
    stepFacts({ num_rollouts: 2048, attempt_id: "a2", policy_version: "v7" }),
    "2,048 rollouts · attempt a2 · policy v7",
  );
});

test("a search says how far it has come and what it could not read", () => {
  const state = { numHits: 3, numRollouts: 640, numSteps: 10, unreadable: 0, removed: 0, isDone: true, isRunning: false };
  assert.equal(searchWords(state), "3 of 640 rollouts in 10 steps have it.");
  assert.match(searchWords({ ...state, isRunning: true }), /^Searching: 3 of 640 rollouts .* so far …$/);
  assert.match(searchWords({ ...state, isDone: false, unreadable: 1 }), /Older steps .* 1 step could not/);
  assert.match(searchWords({ ...state, removed: 7 }), /have it\. The text of 7 steps is no longer kept\.$/);
});

test("steps that were not read are no part of a phrase's line", () => {
  const template = { step: 4, steps: [0, 2, 4], num_rollouts: [8, null, 8] };
  const phrase = { shares: [0.25, null, 1] };
  assert.deepEqual(shareSeries(template, phrase), { steps: [0, 4], values: [0.25, 1] });
  assert.equal(shareAt(template, phrase), 1);
  assert.equal(shareAt({ ...template, step: 2 }, phrase), null);
});

test("the template of a step is told in words, and why there is none", () => {
  const template = { step: 4, steps: [4], num_rollouts: [64], phrases: [{}], reason: null };
  const told = templateWords({ ...template, min_words: 4, min_prompts: 4, num_prompts: 8 });
  assert.match(told, /^Phrases of 4 or more words .* at least 4 of 8 prompts share\. .* 64 first responses/);
  assert.equal(
    templateWords({ ...template, phrases: [], reason: "the step is not scored yet" }),
    "The step is not scored yet.",
  );
});

test("an address holds the whole view of a rollout and comes back as it was", () => {
  const usual = parseRoute("#/runs/r%201/rollouts");
  assert.deepEqual(usual, {
    screen: "rollouts",
    runId: "r 1",
    step: null,
    index: null,
    attempt: "",
    group: "",
    order: "index",
    mark: "template",
    text: "",
    where: "response",
  });
  assert.equal(rolloutsHref("r 1", usual), "#/runs/r%201/rollouts");
  const choice = {
    step: 0,
    index: 0,
    attempt: "a",
    group: "g & h",
    order: "-reward",
    mark: "tokens",
    text: "a=b",
    where: "all",
  };
  const { screen, runId, ...found } = parseRoute(rolloutsHref("r", choice));
  assert.deepEqual([screen, runId, found], ["rollouts", "r", choice]);
  assert.equal(parseRoute("#/runs/r/rollouts?step=x&rollout=-1").step, null);
});
