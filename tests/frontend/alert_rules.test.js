import assert from "node:assert/strict";
import test from "node:test";

import {
  EMPTY_RULE,
  aboutWords,
  episodeWords,
  fieldErrors,
  fileErrors,
  formOf,
  groupDetectors,
  importWords,
  lineSpan,
  previewWords,
  rateLines,
  ruleOf,
  ruleWords,
  settingIn,
  severityWords,
  totalWords,
} from "../../frontend/collapsewatch_frontend/static/js/alert_rules.js";

const RULE = {
  name: "Reward is gone",
  metric: "reward",
  scope: "batch",
  operator: "drop",
  threshold: 0.5,
  for_evaluations: 3,
  severity: "warning",
  project: "sokoban",
  tag: null,
  run: null,
  enabled: false,
};

test("a rule comes out of its form as it went in", () => {
  assert.deepEqual(ruleOf(formOf({ ...RULE, rule_id: 4, num_open: 1 })), RULE);
});

test("a number may have a comma; what is no number goes to the server, which says so", () => {
  const form = { ...EMPTY_RULE, threshold: " 0,25 ", for_evaluations: "many" };
  assert.equal(ruleOf(form).threshold, 0.25);
  assert.equal(ruleOf(form).for_evaluations, "many");
  assert.equal(ruleOf(EMPTY_RULE).threshold, "", "an empty field is not 0");
});

test("a refusal stands at its field, the rest at the form", () => {
  const details = [
    { loc: "threshold", message: "Input should be a valid number" },
    { loc: "threshold", message: "again" },
    { loc: "planet", message: "Extra inputs are not permitted" },
  ];
  assert.deepEqual(fieldErrors({ details, message: "" }, ["name", "threshold"]), {
    threshold: "Input should be a valid number",
    form: "planet: Extra inputs are not permitted",
  });
  const between = [{ loc: "", message: "Value error, `threshold` of a `drop` is a share in (0, 1], got 3" }];
  assert.deepEqual(fieldErrors({ details: between, message: "" }, ["name", "threshold"]), {
    threshold: "`threshold` of a `drop` is a share in (0, 1], got 3",
  });
  assert.deepEqual(fieldErrors({ details: [], message: "the name is taken" }, ["name"]), {
    form: "the name is taken",
  });
});

test("a rule is told in one line", () => {
  assert.equal(
    ruleWords(RULE),
    "reward (batch) fell from its baseline by more than 50 %, 3 evaluations in a row",
  );
  assert.equal(
    ruleWords({ ...RULE, operator: "<", threshold: 0.2, for_evaluations: 1, scope: "first_turn" }),
    "reward (first turn) is below 0.200",
  );
  assert.equal(aboutWords(RULE), "project sokoban");
  assert.equal(aboutWords({ project: null, tag: null, run: null }), "all runs");
});

const run = (episodes) => ({ run_id: "a", run_name: "a", project: "p", num_evaluations: 50, episodes });
const episode = { opened_step: 20, resolved_step: null, value: 0.3, limit: 0.25 };

test("a preview says how often it would have fired, and on what it looked", () => {
  assert.equal(
    previewWords({ runs: [run([episode, episode]), run([])], num_runs: 2, is_cut: false }),
    "It would have fired 2 times, on 1 of 2 runs that have the metric.",
  );
  assert.equal(
    previewWords({ runs: [run([])], num_runs: 1, is_cut: true }),
    "It would never have fired on 1 run that has the metric. Only the newest runs were looked at.",
  );
  assert.equal(
    previewWords({ runs: [], num_runs: 3, is_cut: false }),
    "None of 3 runs has this metric in this scope.",
  );
  assert.match(previewWords({ runs: [], num_runs: 0, is_cut: false }), /No run/);
  assert.equal(episodeWords(episode), "step 20: 0.300 against 0.250, open to the end");
});

const DETECTOR = {
  rule: "reward_drop",
  scope: "batch",
  severities: ["warning"],
  false_alarms: [{ severity: "warning", scope: "first_turn", alpha: 0.000125, share: 0.0625 }],
  settings: [
    { project: null, rule: "reward_drop", enabled: true, severity: "info" },
    { project: "sokoban", rule: "reward_drop", enabled: false, severity: null },
  ],
};

test("a project's own setting counts before that of every project, and that before none", () => {
  assert.deepEqual(settingIn(DETECTOR, "sokoban"), { enabled: false, severity: null, from: "project" });
  assert.deepEqual(settingIn(DETECTOR, "frozenlake"), {
    enabled: true,
    severity: "info",
    from: "everywhere",
  });
  assert.deepEqual(settingIn(DETECTOR, ""), { enabled: true, severity: "info", from: "everywhere" });
  assert.deepEqual(settingIn({ settings: [] }, "sokoban"), { enabled: true, severity: null, from: "own" });
});

test("rates are told as evaluations between two false alarms, with the share of the budget", () => {
  assert.deepEqual(rateLines(DETECTOR), ["warning at most 1 in 8,000 evaluations, 6.3 % of the budget"]);
  assert.match(totalWords([DETECTOR]), /at most one false warning in 500 evaluations/);
  assert.equal(totalWords([]), "");
  assert.equal(severityWords(["info", "warning", "critical"]), "note, warning or critical alert");
});

test("no detector is lost between the groups", () => {
  const kinds = ["each", "service", "batch", "planet"];
  const groups = groupDetectors(kinds.map((scope) => ({ rule: scope, scope })));
  assert.deepEqual(
    groups.flatMap((group) => group.detectors.map(({ rule }) => rule)),
    ["each", "batch", "service", "planet"],
  );
});

test("faults of a file stand at their line", () => {
  const details = [
    { loc: "line 14: rule.2.threshold", message: "Input should be a valid number" },
    { loc: "toml", message: "Invalid value (at line 2, column 6)" },
    { loc: "toml", message: "too long" },
  ];
  assert.deepEqual(fileErrors({ details, message: "" }), [
    { line: 14, message: "rule.2.threshold: Input should be a valid number" },
    { line: 2, message: "Invalid value (at line 2, column 6)" },
    { line: null, message: "too long" },
  ]);
  assert.deepEqual(fileErrors({ details: [], message: "no" }), [{ line: null, message: "no" }]);
});

test("a line of a text is found for its selection", () => {
  const text = "a\nbcd\n\ne";
  const cut = (line) => text.slice(...lineSpan(text, line));
  assert.deepEqual([1, 2, 3, 4].map(cut), ["a", "bcd", "", "e"]);
  assert.deepEqual(lineSpan(text, 99), [7, 8]);
  assert.deepEqual(lineSpan("", 1), [0, 0]);
});

test("an import tells what it did", () => {
  const none = { created: [], updated: [], unchanged: [], num_detector_settings: 0 };
  assert.equal(
    importWords({ ...none, created: ["a", "b"], unchanged: ["c"], num_detector_settings: 1 }),
    "Imported: 2 rules created, 1 rule as before, 1 setting of a detector.",
  );
  assert.equal(importWords(none), "The file holds no rule.");
});
