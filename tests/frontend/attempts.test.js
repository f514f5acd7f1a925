import assert from "node:assert/strict";
import test from "node:test";

import { EarlierAttempts } from "../../frontend/collapsewatch_frontend/static/js/attempt_data.js";
import {
  attemptWords,
  attemptsWords,
  drawnAttempts,
  resumeSteps,
  supersededAttempts,
} from "../../frontend/collapsewatch_frontend/static/js/attempts.js";

const attempt = (attempt_id, minute, first_step, last_step, superseded_from = null) => ({
  attempt_id,
  started_at: `2026-01-31T12:${String(minute).padStart(2, "0")}:00Z`,
  from_step: null,
  first_step,
  last_step,
  superseded_from,
});

const REWOUND = [attempt("a", 0, 0, 59, 50), attempt("b", 5, 50, 80)];

test("a resumed run says from which step, an uninterrupted one says nothing", () => {
  assert.equal(attemptsWords(REWOUND), "2 attempts; resumed at step 50");
  assert.equal(attemptsWords([REWOUND[0]]), "");
  assert.equal(attemptsWords(undefined), "");
  const three = [...REWOUND, attempt("c", 9, 1070, 1100)];
  assert.equal(attemptsWords(three), "3 attempts; resumed at steps 50 and 1,070");
  const five = [...three, attempt("d", 10, 1090, 1100), attempt("e", 11, 1095, 1100)];
  assert.equal(attemptsWords(five), "5 attempts; resumed last at step 1,095");
});

test("an attempt that has not logged a step yet resumes nowhere", () => {
  const waiting = [attempt("a", 0, 0, 59), attempt("b", 5, null, null)];
  assert.deepEqual(resumeSteps(waiting), []);
  assert.deepEqual(supersededAttempts(waiting), []);
  assert.match(attemptsWords(waiting), /not logged a step/);
  assert.equal(attemptWords(waiting[1]), "no step yet");
});

test("what a later attempt replays is superseded from its first step on", () => {
  assert.deepEqual(supersededAttempts(REWOUND), [{ attemptId: "a", number: 1, fromStep: 50, lastStep: 59 }]);
  assert.equal(attemptWords(REWOUND[0]), "steps 0–59, superseded from step 50");
  assert.equal(attemptWords(REWOUND[1]), "steps 50–80");
  assert.equal(attemptWords(attempt("c", 2, 20, 40, 20)), "steps 20–40, superseded");
  assert.equal(attemptWords(attempt("d", 2, 7, 7)), "step 7");
});

test("an attempt that goes on where the last one ended supersedes nothing", () => {
  const gapless = [attempt("a", 0, 0, 49), attempt("b", 5, 50, 80)];
  assert.deepEqual(supersededAttempts(gapless), []);
  assert.deepEqual(resumeSteps(gapless), [{ step: 50, number: 2 }]);
});

test("only the newest few are drawn", () => {
  const many = Array.from({ length: 9 }, (_, i) =>
    attempt(`a${i}`, i, 10 * i, 10 * i + 20, i < 8 ? 10 * i + 10 : null),
  );
  assert.deepEqual(
    drawnAttempts(many).map(({ number }) => number),
    [5, 6, 7, 8],
  );
});

function fakeApi(asked) {
  return {
    getSeries: async (_, question) => {
      asked.push(["series", question.scope, question.sinceStep, question.attempt]);
      return { reward: { steps: [50, 51], values: [1, 2] } };
    },
    getTrajectory: async (_, question) => {
      asked.push(["trajectory", question.scope, question.sinceStep, question.attempt]);
      return { points: [] };
    },
  };
}

test("an earlier attempt is asked for its own rows from where it was superseded", async () => {
  const asked = [];
  const earlier = new EarlierAttempts(fakeApi(asked), "r");
  const summary = { attempts: REWOUND, metrics: { first_turn: ["mi_seq"], batch: ["reward"] } };
  await earlier.load(summary, "first_turn", true);
  assert.deepEqual(asked, [
    ["series", "first_turn", 50, "a"],
    ["series", "batch", 50, "a"],
    ["trajectory", "first_turn", 50, "a"],
  ]);
  assert.deepEqual(earlier.list[0].series.batch.reward.steps, [50, 51]);
});

test("earlier attempts are loaded again only when one came or grew", async () => {
  const asked = [];
  const earlier = new EarlierAttempts(fakeApi(asked), "r");
  const load = (attempts) => earlier.load({ attempts, metrics: {} }, "first_turn", false);
  await load(REWOUND);
  asked.length = 0;
  await load([REWOUND[0], attempt("b", 5, 50, 81)]);
  assert.deepEqual(asked, []);
  await load([attempt("a", 0, 0, 61, 50), attempt("b", 5, 50, 81)]);
  assert.equal(asked.length, 1);
  await load([REWOUND[1]]);
  assert.deepEqual(earlier.list, []);
});
