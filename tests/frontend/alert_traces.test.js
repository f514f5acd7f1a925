import assert from "node:assert/strict";
import test from "node:test";

import {
  baselineWords,
  leftOutWords,
  markedParts,
  missingWords,
  traceFacts,
  wordsOf,
} from "../../frontend/collapsewatch_frontend/static/js/alert_traces.js";

const marked = (text, ...phrases) =>
  markedParts(text, phrases)
    .map((part) => (part.isMarked ? `[${part.text}]` : part.text))
    .join("");

test("phrases are found by their words, whatever case, lines and spaces stand between", () => {
  assert.equal(
    marked("So: Let me  think\nstep by step, then go.", "let me think step by step"),
    "So: [Let me  think\nstep by step], then go.",
  );
  // Part of a word is no word.
  assert.equal(marked("outlet me think", "let me think"), "outlet me think");
});

test("signs are words, and tags are none", () => {
  assert.equal(marked("a <think>box # at</think> b", "a box # at"), "[a <think>box # at]</think> b");
  assert.deepEqual(
    wordsOf("<|im_end|> P _ #.").map(({ word }) => word),
    ["p", "_", "#", "."],
  );
});

test("every character of a script without spaces is a word, and letters have no case", () => {
  assert.equal(marked("我们来看钥匙", "们 来"), "我[们来]看钥匙");
  assert.equal(marked("ÉTÉ à venir 😀!", "été à"), "[ÉTÉ à] venir 😀!");
});

test("phrases that overlap are one mark, and phrases beside each other are two", () => {
  assert.equal(marked("a b c d e", "a b c", "c d"), "[a b c d] e");
  assert.equal(marked("a b c d e", "a b", "c d"), "[a b] [c d] e");
  assert.equal(marked("b b b", "b b"), "[b b b]");
});

test("a phrase that was cut ends with its last whole word", () => {
  assert.equal(marked("one two three four", "one two thr…"), "[one two] three four");
  assert.equal(marked("one", "", "…", "on…"), "one");
});

test("no text is lost or changed", () => {
  const text = " <b onclick='x'>a b</b>\u2028\n\ta b\u0000 a b a";
  assert.equal(
    markedParts(text, ["a b", "b a"])
      .map((part) => part.text)
      .join(""),
    text,
  );
  assert.deepEqual(markedParts("", ["a"]), []);
});

test("many repetitions of a long phrase are marked in no time", () => {
  const text = "x ".repeat(750);
  const before = performance.now();
  const phrases = Array.from({ length: 100 }, (_, n) => "x ".repeat(400 - n).trim());
  assert.equal(markedParts(text, phrases)[0].isMarked, true);
  assert.ok(performance.now() - before < 1000);
});

test("facts of a trace name what is known", () => {
  const trace = { step: 9700, reward: 0.5, success: null, attempt_id: "default", turn: 0 };
  assert.equal(traceFacts(trace), "Step 9,700 · reward 0.500");
  assert.equal(
    traceFacts({ ...trace, step: 7, reward: null, success: false, attempt_id: "a2", turn: 3 }),
    "Step 7 · no reward · failed · attempt a2 · turn 3",
  );
});

test("what is left out and what is missing is said", () => {
  assert.equal(leftOutWords(0, "after"), "");
  assert.equal(leftOutWords(1, "after"), "1 character more");
  assert.equal(leftOutWords(12, "before"), "12 characters before this");
  assert.equal(missingWords({ reason: null, baseline_reason: null }), "");
  const both = { reason: "the batch is gone", baseline_reason: "no baseline" };
  assert.equal(missingWords(both), "The batch is gone. No baseline.");
});

test("the response of the baseline says how near its prompt is", () => {
  const baseline = { group_id: "g1" };
  const words = (isSame, group) =>
    baselineWords({ baseline, is_same_prompt: isSame, group_ids: [group] });
  assert.match(words(true, "g9"), /the same prompt/);
  assert.match(words(false, "g1"), /another prompt of its group/);
  assert.match(words(false, "g9"), /another prompt: g1/);
});
