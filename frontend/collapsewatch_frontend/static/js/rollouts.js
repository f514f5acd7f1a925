/** What is said of rollouts, and which parts of their text are marked. Pure. */

import { markedParts } from "./alert_traces.js";
import { formatNumber, formatStep, isNumber, plural, scorerWords, shortName } from "./format.js";

export const ORDERS = [
  { id: "index", name: "as logged" },
  { id: "-reward", name: "highest reward first" },
  { id: "reward", name: "lowest reward first" },
  { id: "-length", name: "longest first" },
  { id: "length", name: "shortest first" },
];
export const PLACES = [
  { id: "response", name: "in responses" },
  { id: "prompt", name: "in prompts" },
  { id: "all", name: "in both" },
];
export const MARKS = [
  { id: "template", name: "Shared template" },
  { id: "tokens", name: "Log-probs" },
  { id: "none", name: "Plain" },
];

/** `reward 0.5 · failed · 3 turns`; what is not known is left out. */
export function rolloutFacts({ reward, success, num_turns: numTurns }) {
  return [
    isNumber(reward) ? `reward ${formatNumber(reward)}` : "no reward",
    success === null ? "" : success ? "succeeded" : "failed",
    numTurns > 1 ? plural(numTurns, "turn") : "",
  ]
    .filter((text) => text !== "")
    .join(" · ");
}

/** What stands under the title: how many, of which attempt and policy. */
export function stepFacts({ num_rollouts: count, attempt_id: attempt, policy_version: version }) {
  return [
    plural(count, "rollout"),
    attempt === "" || attempt === "default" ? "" : `attempt ${shortName(attempt, 16)}`,
    version === null ? "" : `policy ${shortName(version, 40)}`,
  ]
    .filter((text) => text !== "")
    .join(" · ");
}

/** The item before (-1) or after (+1) the shown one; the first when it is not in the list, null at its ends. */
export function neighbour(items, isShown, direction) {
  const at = items.findIndex(isShown);
  return at < 0 ? (items[0] ?? null) : (items[at + direction] ?? null);
}

const KEYS = {
  j: "next",
  ArrowRight: "next",
  k: "previous",
  ArrowLeft: "previous",
  "]": "next step",
  "[": "previous step",
  "/": "search",
  m: "mark",
};

/** What a key asks for; null for none, and for every key that is meant for a field or for the browser. */
export function actionOfKey({ key, ctrlKey, metaKey, altKey, isTyping }) {
  return ctrlKey || metaKey || altKey || isTyping ? null : (KEYS[key] ?? null);
}

/**
 * A response in `[{kind, text}]`, in its order, nothing left out: `reasoning`, `tag`, `action`, or `response`
 * where the batch has no tags or the response no end of them.
 */
export function responseParts(response, { open_tag: open, close_tag: close }) {
  if (open === null || close === null) return [{ kind: "response", text: response }];
  const lead = /^\s*/.exec(response)[0].length;
  const start = response.startsWith(open, lead) ? lead + open.length : 0;
  const end = response.indexOf(close, start);
  const opening = { kind: "tag", text: response.slice(0, start) };
  if (end < 0) return [opening, { kind: "response", text: response.slice(start) }].filter(hasText);
  return [
    opening,
    { kind: "reasoning", text: response.slice(start, end) },
    { kind: "tag", text: close },
    { kind: "action", text: response.slice(end + close.length) },
  ].filter(hasText);
}

const hasText = ({ text }) => text !== "";

/** As the server finds it: any case, any whitespace, which beside a sign may be missing. */
export function wantedPattern(text) {
  const words = text.split(/\s+/u).filter((word) => word !== "");
  if (words.length === 0) return null;
  const isLetter = (character) =>
    /[\p{L}\p{N}_]/u.test(character) && !/[\u3040-\u30ff\u3400-\u9fff]/u.test(character);
  const source = words.reduce((pattern, word, i) => {
    if (i === 0) return escaped(word);
    const before = [...words[i - 1]].at(-1);
    return `${pattern}${isLetter(before) && isLetter([...word][0]) ? "\\s+" : "\\s*"}${escaped(word)}`;
  }, "");
  return new RegExp(source, "giu");
}

const escaped = (word) => word.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

/** A text in parts `[{text, isShared, isFound}]`: where a phrase of the template stands, and where the search hits. */
export function markText(text, { phrases = [], pattern = null }) {
  const parts = phrases.length === 0 ? [{ text, isMarked: false }] : markedParts(text, phrases);
  if (pattern === null)
    return parts.map((part) => ({ text: part.text, isShared: part.isMarked, isFound: false }));
  const hits = [...text.matchAll(pattern)].map((hit) => [hit.index, hit.index + hit[0].length]);
  const marked = [];
  let at = 0;
  let next = 0;
  for (const part of parts) {
    const end = at + part.text.length;
    while (at < end) {
      while (next < hits.length && hits[next][1] <= at) next += 1;
      const hit = next < hits.length ? hits[next] : [end, end];
      const isFound = hit[0] <= at && at < hit[1];
      const until = Math.min(end, isFound ? hit[1] : Math.max(hit[0], at));
      const stop = until === at ? end : until;
      marked.push({ text: text.slice(at, stop), isShared: part.isMarked, isFound });
      at = stop;
    }
  }
  return marked;
}

/** Below each of these probabilities a token is shaded one level darker. */
export const SHADE_LIMITS = [0.9, 0.6, 0.3, 0.1, 0.03, 0.005];

/** 0 for a token that was all but certain to 6 for one that was hardly to be expected. */
export function shadeOf(logProb) {
  const probability = Math.exp(logProb);
  const level = SHADE_LIMITS.findIndex((limit) => probability >= limit);
  return level < 0 ? SHADE_LIMITS.length : level;
}

/** `log p −1.20 nats, p 0.30`. */
export function tokenWords(logProb, tokenId = null) {
  const id = tokenId === null ? "" : `token ${tokenId}: `;
  return `${id}log p ${formatNumber(logProb)} nats, p ${formatNumber(Math.exp(logProb))}`;
}

/** What stands over the shaded text: whose numbers they are, and their mean. */
export function tokensFact({ source, label, log_probs: values, num_left_out: leftOut, pieces }) {
  const whose = source === "sampler" ? "as the trainer sent them" : `by ${scorerWords({ kind: "", label })}`;
  const mean = values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
  const rest = leftOut > 0 ? ` ${formatStep(leftOut)} more are not shown.` : "";
  const unknown = pieces === null ? " Nobody said which text each of them stands for." : "";
  return `${plural(values.length, "token")} ${whose}: mean log p ${formatNumber(mean)} nats per token.${rest}${unknown}`;
}

/** How far a search has come. */
export function searchWords({ numHits, numRollouts, numSteps, unreadable, removed, isDone, isRunning }) {
  const have = `${formatStep(numHits)} of ${plural(numRollouts, "rollout")} in ${plural(numSteps, "step")} ${numHits === 1 ? "has" : "have"} it`;
  const broken = unreadable > 0 ? ` ${plural(unreadable, "step")} could not be read whole.` : "";
  const gone = removed > 0 ? ` The text of ${plural(removed, "step")} is no longer kept.` : "";
  const missing = broken + gone;
  if (isRunning) return `Searching: ${have} so far …${missing}`;
  return `${have}.${isDone ? "" : " Older steps are not searched yet."}${missing}`;
}

/** The shares of a phrase as a series, without the steps that were not read. */
export function shareSeries({ steps }, { shares }) {
  const known = steps.map((step, i) => [step, shares[i]]).filter(([, share]) => isNumber(share));
  return { steps: known.map(([step]) => step), values: known.map(([, share]) => share) };
}

/** The share at a step; null where it is not known. */
export function shareAt({ steps, step }, { shares }) {
  return shares[steps.indexOf(step)] ?? null;
}

/** Said of the template of a step. */
export function templateWords(template) {
  if (template.reason !== null && template.phrases.length === 0) return `${capital(template.reason)}.`;
  const count = template.num_rollouts[template.steps.indexOf(template.step)] ?? null;
  const read = count === null ? "" : ` Shares are of ${plural(count, "first response")} per step.`;
  return `Phrases of ${template.min_words} or more words and signs that reasonings of at least ${template.min_prompts} of ${plural(template.num_prompts, "prompt")} share.${read}`;
}

export const capital = (text) => `${text[0].toUpperCase()}${text.slice(1)}`;
