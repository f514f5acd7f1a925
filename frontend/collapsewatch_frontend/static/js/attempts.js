/** The starts of the training behind one run, and what of the earlier ones was superseded. Pure. */

import { formatStep, isNumber, plural } from "./format.js";

/** More earlier attempts than this in one figure cannot be told apart. */
const MAX_DRAWN = 4;
const MAX_NAMED_STEPS = 3;

/** As the server orders them, by their start, numbered from 1. */
const numbered = (attempts = []) => attempts.map((attempt, i) => ({ ...attempt, number: i + 1 }));

/** `[{attemptId, number, fromStep, lastStep}]`: attempts that reached steps which a later one replayed. */
export function supersededAttempts(attempts) {
  return numbered(attempts)
    .filter(({ superseded_from: from, last_step: last }) => isNumber(from) && isNumber(last) && last >= from)
    .map((attempt) => ({
      attemptId: attempt.attempt_id,
      number: attempt.number,
      fromStep: attempt.superseded_from,
      lastStep: attempt.last_step,
    }));
}

/** Those of them that the figures draw: the newest few. */
export const drawnAttempts = (attempts) => supersededAttempts(attempts).slice(-MAX_DRAWN);

/** `[{step, number}]`: where attempts after the first began. */
export function resumeSteps(attempts) {
  return numbered(attempts)
    .slice(1)
    .filter((attempt) => isNumber(attempt.first_step))
    .map((attempt) => ({ step: attempt.first_step, number: attempt.number }));
}

/** `2 attempts; resumed at step 50`; nothing for a run that was started once. */
export function attemptsWords(attempts = []) {
  if (attempts.length < 2) return "";
  const steps = resumeSteps(attempts).map(({ step }) => step);
  const count = plural(attempts.length, "attempt");
  if (steps.length === 0) return `${count}; the newest has not logged a step yet`;
  if (steps.length > MAX_NAMED_STEPS)
    return `${count}; resumed last at step ${formatStep(steps[steps.length - 1])}`;
  const texts = steps.map(formatStep);
  const named =
    texts.length === 1 ? texts[0] : `${texts.slice(0, -1).join(", ")} and ${texts[texts.length - 1]}`;
  return `${count}; resumed at ${texts.length === 1 ? "step" : "steps"} ${named}`;
}

/** What came of one attempt: `steps 0–59, superseded from step 50`. */
export function attemptWords({ first_step: first, last_step: last, superseded_from: from }) {
  if (!isNumber(first) || !isNumber(last)) return "no step yet";
  const steps = first >= last ? `step ${formatStep(last)}` : `steps ${formatStep(first)}–${formatStep(last)}`;
  if (!isNumber(from) || from > last) return steps;
  return from <= first ? `${steps}, superseded` : `${steps}, superseded from step ${formatStep(from)}`;
}
