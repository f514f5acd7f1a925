import assert from "node:assert/strict";
import test from "node:test";

import {
  codeParts,
  formatAge,
  formatBytes,
  formatClock,
  formatDuration,
  formatInterval,
  formatNumber,
  formatPercent,
  formatSetting,
  formatStep,
  formatValue,
  humanise,
  isNumber,
  ordinal,
  plotlyText,
  plural,
  samplingWords,
  scorerWords,
  shortName,
  truncate,
} from "../../frontend/collapsewatch_frontend/static/js/format.js";

test("an absent number is a dash and never 0", () => {
  for (const absent of [null, undefined, NaN, Infinity, "3"]) {
    assert.equal(isNumber(absent), false);
    assert.equal(formatNumber(absent), "–");
    assert.equal(formatPercent(absent), "–");
    assert.equal(formatStep(absent), "–");
  }
});

test("code stands between backticks, and a lone backtick is a backtick", () => {
  assert.deepEqual(codeParts("run `a b` now"), [
    { text: "run ", isCode: false },
    { text: "a b", isCode: true },
    { text: " now", isCode: false },
  ]);
  assert.deepEqual(codeParts("5` tall"), [{ text: "5` tall", isCode: false }]);
  assert.deepEqual(codeParts(""), []);
});

test("an amount of data has the unit in which it is short", () => {
  const cases = [
    [0, "0 B"],
    [1023, "1023 B"],
    [1024, "1.0 KiB"],
    [1024 * 1023.9, "1.0 MiB"],
    [512 * 2 ** 20, "512 MiB"],
    [2 ** 60, "1048576 TiB"],
    [null, "–"],
  ];
  for (const [bytes, text] of cases) assert.equal(formatBytes(bytes), text);
});

test("numbers keep about four significant places", () => {
  const cases = [
    [0, "0"],
    [0.859375, "0.859"],
    [0.125, "0.125"],
    [1.82004, "1.820"],
    [21.234, "21.23"],
    [512.44, "512.4"],
    [1234.5, "1,235"],
    [8, "8"],
    [1, "1.000"],
    [0.00031, "3.1e-4"],
    [-0.25, "−0.250"],
  ];
  for (const [value, text] of cases) assert.equal(formatNumber(value), text);
});

test("percentages show a decimal only where a whole number would hide the difference", () => {
  assert.equal(formatPercent(0.992), "99 %");
  assert.equal(formatPercent(0.031), "3.1 %");
  assert.equal(formatPercent(0), "0 %");
});

test("an interval needs both ends", () => {
  assert.equal(formatInterval(0.1604, 0.451), "0.160 to 0.451");
  assert.equal(formatInterval(0.1, null), "");
  assert.equal(formatInterval(undefined, 0.4), "");
});

test("durations use the largest fitting unit", () => {
  assert.deepEqual([0, 59, 60, 3599, 3600, 86399, 86400].map(formatDuration), [
    "0 s",
    "59 s",
    "1 min",
    "59 min",
    "1 h",
    "23 h",
    "1 d",
  ]);
});

test("an age counts from the given clock, and a time ahead of it is just now", () => {
  const now = Date.parse("2026-01-31T12:00:10Z");
  assert.equal(formatAge("2026-01-31T12:00:06Z", now), "4 s ago");
  assert.equal(formatAge("2026-01-31T12:00:12Z", now), "just now");
  assert.equal(formatAge(null, now), "–");
});

test("the clock has two digits in every place", () => {
  assert.equal(formatClock(new Date(2026, 0, 31, 4, 3, 7).getTime()), "04:03:07");
});

test("one is singular", () => {
  assert.equal(plural(1, "run"), "1 run");
  assert.equal(plural(0, "run"), "0 runs");
  assert.equal(plural(2, "batch", "batches"), "2 batches");
});

test("text for Plotly cannot become markup", () => {
  assert.equal(plotlyText("<b>a</b> & <a href='x'>"), "&lt;b&gt;a&lt;/b&gt; &amp; &lt;a href='x'&gt;");
  assert.equal(plotlyText(7), "7");
});

test("a cut text is no longer than asked for and says that it was cut", () => {
  assert.equal(truncate("abcdef", 6), "abcdef");
  assert.equal(truncate("abcdefg", 6), "abcde…");
});

test("evidence of any JSON shape becomes one readable line", () => {
  assert.equal(formatValue(1203), "1,203");
  assert.equal(formatValue(0.4861), "0.486");
  assert.equal(formatValue(null), "–");
  assert.equal(formatValue([0.5, 1]), "0.500, 1");
  assert.equal(formatValue([]), "none");
  assert.equal(formatValue(true), "true");
  assert.equal(formatValue({ value: 0.5, low: 0.4, high: 0.6 }), "0.500 (0.400 to 0.600)");
  assert.equal(formatValue({ num_prompts: 8, skill_low: 0.25 }), "num prompts 8; skill low 0.250");
});

test("a metric name reads as words", () => {
  assert.equal(humanise("ragen/mi_seq_estimate"), "ragen mi seq estimate");
});

test("a setting keeps all its digits", () => {
  assert.notEqual(formatSetting(0.00301), formatSetting(0.00302));
  assert.equal(formatSetting(1e-5), "0.00001");
  assert.equal(formatSetting(-0.5), "−0.5");
  assert.equal(formatSetting([0.9, 0.9951]), "0.9, 0.9951");
  assert.equal(
    formatSetting({ learning_rate: 0.000125, warm_up: null }),
    "learning rate 0.000125; warm up –",
  );
  assert.equal(formatSetting(undefined), "–");
});

test("a long name keeps its start and its end", () => {
  assert.equal(shortName("grpo-seed-1", 20), "grpo-seed-1");
  const short = shortName("grpo-qwen2.5-0.5b-sokoban-lr1e-6-seed17", 20);
  assert.equal(short.length, 20);
  assert.ok(short.startsWith("grpo-qwen") && short.includes("…") && short.endsWith("-seed17"));
});

test("a pattern of checkpoints is told in words", () => {
  const words = (label, kind = "policy") => scorerWords({ kind, label });
  assert.equal(words("policy checkpoint {policy_version}"), "policy checkpoint, one per policy version");
  assert.equal(words("policy checkpoint step-{step}"), "policy checkpoint step-…, one per step");
  assert.equal(words("policy matrix from the trainer"), "policy matrix from the trainer");
  assert.equal(words("reference model_a", "reference"), "reference model_a");
  assert.equal(words("lexical group_centroid", "lexical"), "lexical group centroid");
});

test("places are counted as people count them", () => {
  const wanted = { 1: "1st", 2: "2nd", 3: "3rd", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 20: "20th" };
  Object.assign(wanted, { 21: "21st", 22: "22nd", 103: "103rd", 111: "111th", 1012: "1,012th" });
  for (const [number, text] of Object.entries(wanted)) assert.equal(ordinal(Number(number)), text);
});

test("what part was scored is one sentence, also when it is everything", () => {
  const words = (rule) => samplingWords({ num_rows: 64, num_rows_available: 512, seed: 0, ...rule });
  const probe = { is_probe: true, num_probe_groups: 16, num_probe_groups_present: 16 };
  assert.equal(
    words({ num_samples: 64, every_steps: 5, ...probe }),
    "64 of 512 reasonings, seed 0 · every 5th step · probe set of 16 prompts",
  );
  assert.equal(words({ num_rows: 512 }), "all 512 reasonings");
  assert.equal(words({ num_rows: 512, every_steps: 2 }), "all 512 reasonings · every 2nd step");
  // A cap that nothing reached says that it is there.
  assert.equal(words({ num_rows: 512, num_samples: 1000 }), "all 512 reasonings, at most 1,000");
  assert.equal(words({ num_samples: 64, seed: 7 }), "64 of 512 reasonings, seed 7");
  // Without a cap no seed has decided anything.
  assert.equal(words(probe), "64 of 512 reasonings · probe set of 16 prompts");
  assert.equal(
    words({ ...probe, num_probe_groups_present: 12 }),
    "64 of 512 reasonings · probe set of 16 prompts, 12 of them in the batch",
  );
  assert.equal(words({ by_trainer: true }), "64 of 512 reasonings, chosen by the trainer");
  assert.equal(words({ by_trainer: true, num_rows: 512 }), "all 512 reasonings");
});
