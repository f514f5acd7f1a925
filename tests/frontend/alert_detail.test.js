import assert from "node:assert/strict";
import test from "node:test";

import {
  baselineValues,
  budgetWords,
  history,
  itemDeliveries,
  limitValues,
  momentFigures,
  momentRange,
  promptWords,
  ratioWords,
  sentences,
  signals,
} from "../../frontend/collapsewatch_frontend/static/js/alert_detail.js";

const DEPENDENCE = {
  skill: 0.05,
  baseline_skill: 0.75,
  retrieval_accuracy: 0.17,
  baseline_retrieval_accuracy: 0.78,
  reward: 0.68,
  baseline_reward: 0.65,
  floor_skill: 0.375,
  baseline_first_step: 1,
};
const SERIES_RULE = {
  metric: "reasoning_length",
  value: 400,
  baseline: 100,
  limit: 200,
  corroborating: [{ metric: "conditional_entropy", value: 2, baseline: 1 }],
  contradicting: [{ metric: "reward", value: 0.9, baseline: 0.5 }],
};
const points = (steps) => ({ steps, values: steps.map(() => 0.5), low: [], high: [] });

test("a message falls into its sentences, and numbers stay whole", () => {
  const message =
    "Skill fell to 0.21 (95 % 0.10 to 0.30). Over 3 evaluations it is 0.10. Reward is as before.";
  assert.deepEqual(sentences(message), [
    "Skill fell to 0.21 (95 % 0.10 to 0.30).",
    "Over 3 evaluations it is 0.10.",
    "Reward is as before.",
  ]);
  assert.deepEqual(sentences(""), []);
});

test("signals carry their baseline and how the rule weighs them", () => {
  assert.deepEqual(
    signals(DEPENDENCE).map(({ metric, kind }) => [metric, kind]),
    [
      ["retrieval_skill", "own"],
      ["retrieval_accuracy", "beside"],
      ["reward", "beside"],
    ],
  );
  assert.deepEqual(
    signals(SERIES_RULE).map(({ metric, kind }) => [metric, kind]),
    [
      ["reasoning_length", "own"],
      ["conditional_entropy", "corroborating"],
      ["reward", "contradicting"],
    ],
  );
  assert.deepEqual(signals({}), []);
});

test("a value is told as a multiple of its baseline where that means something", () => {
  assert.equal(ratioWords({ value: 0.17, baseline: 0.68 }), "0.25 × baseline");
  assert.equal(ratioWords({ value: 0.66, baseline: 0.65 }), "as at baseline");
  assert.equal(ratioWords({ value: 1, baseline: 0 }), "");
  assert.equal(ratioWords({ value: -1, baseline: 2 }), "");
  assert.equal(ratioWords({ value: 1, baseline: null }), "");
});

test("baseline and limit belong to the metric that they are about", () => {
  assert.equal(baselineValues(DEPENDENCE).retrieval_skill, 0.75);
  assert.equal(baselineValues(SERIES_RULE).reasoning_length, 100);
  assert.deepEqual(limitValues(DEPENDENCE), { retrieval_skill: 0.375 });
  assert.deepEqual(limitValues(SERIES_RULE), { reasoning_length: 200 });
});

test("the rule's own metric comes first, chance stands in its accuracy's figure, empty ones are left out", () => {
  const around = {
    series: [
      {
        scope: "first_turn",
        series: {
          retrieval_accuracy: points([20, 21]),
          retrieval_chance: points([20, 21]),
          retrieval_skill: points([20, 21]),
        },
      },
      { scope: "batch", series: { reward: points([19, 22]), valid_reasoning_rate: points([]) } },
    ],
  };
  const figures = momentFigures(around, DEPENDENCE, "retrieval_skill");
  assert.deepEqual(
    figures.map(({ metric }) => metric),
    ["retrieval_skill", "retrieval_accuracy", "reward"],
  );
  assert.deepEqual(figures[1].beside.steps, [20, 21]);
  assert.equal(figures[0].beside, null);
  assert.equal(figures[0].limit, 0.375);
  assert.equal(figures[2].baseline, 0.65);
  assert.deepEqual(momentRange(figures), [19, 22]);
  assert.equal(momentRange([]), null);
});

test("the error budget is told with its share", () => {
  const words = budgetWords({ alpha: 0.00075, budget_share: 0.375 }, "warning");
  assert.match(words, /false warning in this scope at most once in 1,333 evaluations/);
  assert.match(words, /38 % of the error budget/);
  assert.equal(budgetWords({}, "critical"), "");
});

const change = (kind, at, extra = {}) => ({
  change: kind,
  at,
  by: null,
  reason: null,
  severity: "warning",
  ...extra,
});

test("what a person did and what changed by it is one entry", () => {
  const entries = history({
    changes: [
      change("opened", "2026-01-31T12:00:00.000Z"),
      change("snoozed", "2026-01-31T12:05:00.010Z", { by: "Ada" }),
      change("snooze_ended", "2026-01-31T13:05:00.000Z"),
      change("resolved", "2026-01-31T14:00:00.000Z", { reason: "rule" }),
    ],
    actions: [
      {
        kind: "snooze",
        by: "Ada",
        note: "at lunch",
        at: "2026-01-31T12:05:00.000Z",
        until: "2026-01-31T13:05:00Z",
        severity: "warning",
      },
    ],
  });
  assert.deepEqual(
    entries.map(({ what, who, note }) => [what, who, note]),
    [
      ["Opened", "", ""],
      ["Snoozed", "Ada", "at lunch"],
      ["The snooze ended while it was still open", "", ""],
      ["Resolved: its rule's condition was no longer met", "", ""],
    ],
  );
});

test("a second snooze, which is no change, and deliveries stand in their place in time", () => {
  const entries = history({
    changes: [change("opened", "2026-01-31T12:00:00Z")],
    actions: [
      {
        kind: "snooze",
        by: "Bo",
        note: "",
        at: "2026-01-31T12:20:00Z",
        until: "2026-01-31T18:00:00Z",
        severity: "warning",
      },
    ],
    deliveries: [{ at: "2026-01-31T12:00:05Z", channel_name: "ops", status: "failed", answer: "HTTP 500" }],
  });
  assert.deepEqual(
    entries.map(({ what, note }) => [what, note]),
    [
      ["Opened", ""],
      ["Could not tell the channel ops", "HTTP 500"],
      ["Snoozed", ""],
    ],
  );
});

test("a prompt tells how many of its reasonings were traced back to it", () => {
  const prompt = { accuracy: 0.1875, num_rows: 16, chance: 0.125, baseline_accuracy: null };
  assert.equal(promptWords(prompt), "3 of 16, chance 13 %");
  assert.equal(promptWords({ ...prompt, baseline_accuracy: 0.75 }), "3 of 16, chance 13 %; was 75 %");
});

test("what channels were told of an item is read back to its opening, and no further", async () => {
  const asked = [];
  const delivery = (minute, thread, extra = {}) => ({
    created_at: `2026-01-31T12:${minute}:00Z`,
    finished_at: null,
    status: "waiting",
    answer: "busy",
    changes: [{ thread_id: thread }],
    ...extra,
  });
  const pages = {
    undefined: { deliveries: [delivery("40", 7), delivery("30", 8)], next_before: 5 },
    5: {
      deliveries: [
        delivery("20", 7, { status: "sent", finished_at: "2026-01-31T12:21:00Z" }),
        delivery("05", 9),
      ],
      next_before: 3,
    },
    3: { deliveries: [delivery("01", 7)], next_before: null },
  };
  const api = {
    getChannels: async () => [{ channel_id: 1, name: "ops" }],
    getDeliveries: async (id, { before }) => {
      asked.push([id, before]);
      return pages[before];
    },
  };
  const found = await itemDeliveries(api, { thread_id: 7, opened_at: "2026-01-31T12:10:00Z" });
  assert.deepEqual(asked, [
    [1, undefined],
    [1, 5],
  ]);
  assert.deepEqual(found, [
    { at: "2026-01-31T12:40:00Z", channel_name: "ops", status: "waiting", answer: "busy" },
    { at: "2026-01-31T12:21:00Z", channel_name: "ops", status: "sent", answer: "busy" },
  ]);
  assert.deepEqual(await itemDeliveries({ getChannels: async () => [] }, { thread_id: 7 }), []);
});
