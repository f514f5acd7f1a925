/** Names, marks and signs of life of runs. Pure. */

import { formatAge, formatStep } from "./format.js";

/** `tone` names a role of the style sheet (`tone-<tone>`); `hint` says what a person may expect. */
export const RUN_STATES = {
  running: { name: "Running", icon: "running", tone: "good", hint: "The trainer gives signs of life." },
  stalled: {
    name: "Stalled",
    icon: "stalled",
    tone: "warning",
    hint: "No sign of life for a while. The run goes on by itself with the next one.",
  },
  crashed: {
    name: "Crashed",
    icon: "crashed",
    tone: "critical",
    hint: "No sign of life for so long that nobody expects one. A resumed run goes on here.",
  },
  finished: { name: "Finished", icon: "resolved", tone: "quiet", hint: "The trainer said that it is done." },
  failed: { name: "Failed", icon: "failed", tone: "critical", hint: "The trainer said that it failed." },
};

/** What to show for a state; an unknown one keeps its own name and never looks healthy. */
export function runStateInfo(state) {
  if (Object.hasOwn(RUN_STATES, state)) return RUN_STATES[state];
  return { name: String(state), icon: "insufficient", tone: "quiet", hint: "" };
}

/** Whether the server waits for a sign of life. */
export const isSilent = (state) => state === "stalled" || state === "crashed";

/** `last seen 4 min ago` for a run that went silent, else nothing. */
export function lastSeenWords(run, nowMs) {
  if (!isSilent(run.state)) return "";
  const age = run.last_seen_at ? formatAge(run.last_seen_at, nowMs) : null;
  return age === null ? "never seen alive" : `last seen ${age}`;
}

/** `["2 running", "1 stalled"]`: how many run, always, and how many are in trouble, where any are. */
export function stateCounts(runs) {
  const count = (state) => runs.filter((run) => run.state === state).length;
  const troubled = ["stalled", "crashed"].filter((state) => count(state) > 0);
  return ["running", ...troubled].map((state) => `${formatStep(count(state))} ${state}`);
}
