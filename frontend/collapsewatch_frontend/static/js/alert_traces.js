/** What the model wrote around an alert: which words are the shared template, and the facts beside. Pure. */

import { formatNumber, formatStep, isNumber, plural, shortName } from "./format.js";

// As the worker reads words: a character of a script without spaces, a word or number, a sign.
const UNSPACED = "\\u3040-\\u30ff\\u3400-\\u9fff";
const WORD = new RegExp(`[${UNSPACED}]|(?:(?![${UNSPACED}])[\\p{L}\\p{N}_])+|[^\\p{L}\\p{N}_\\s]`, "gu");
/** Tags and special tokens, which are no words. */
const MARKUP = /<[/|]?[a-z_][\p{L}\p{N}_ ]{0,40}[/|]?>/giu;

/** The words of a text with their places: `[{word, start, end}]`, in lower case. */
export function wordsOf(text) {
  const blank = text.replace(MARKUP, (found) => " ".repeat(found.length));
  return [...blank.matchAll(WORD)].map(({ 0: found, index }) => ({
    word: found.toLowerCase(),
    start: index,
    end: index + found.length,
  }));
}

/** The words of a phrase as the evidence has it; the last one of a phrase that was cut is no whole word. */
function phraseWords(text) {
  const isCut = text.endsWith("…");
  const words = (isCut ? text.slice(0, -1) : text).split(" ").filter((word) => word !== "");
  return isCut ? words.slice(0, -1) : words;
}

/** A text in parts, `[{text, isMarked}]`, with every place marked that holds one of the phrases. */
export function markedParts(text, phrases) {
  const words = wordsOf(text);
  const isShared = new Uint8Array(words.length);
  /** Whether the word goes on with the phrase of the one before it, so that what is between belongs to both. */
  const goesOn = new Uint8Array(words.length);
  for (const wanted of phrases.map(phraseWords)) {
    if (wanted.length === 0) continue;
    for (let at = 0; at + wanted.length <= words.length; at += 1) {
      if (!wanted.every((word, offset) => words[at + offset].word === word)) continue;
      isShared.fill(1, at, at + wanted.length);
      goesOn.fill(1, at + 1, at + wanted.length);
    }
  }
  const parts = [];
  const add = (from, until, isMarked) => {
    if (from < until) parts.push({ text: text.slice(from, until), isMarked });
  };
  let done = 0;
  for (let at = 0; at < words.length; at += 1) {
    if (isShared[at] === 0) continue;
    let last = at;
    while (last + 1 < words.length && goesOn[last + 1] === 1) last += 1;
    add(done, words[at].start, false);
    add(words[at].start, words[last].end, true);
    done = words[last].end;
    at = last;
  }
  add(done, text.length, false);
  return parts;
}

/** `Step 97 · reward 0.5 · failed · attempt a2 · turn 1`. */
export function traceFacts({ step, reward, success, attempt_id: attempt, turn }) {
  return [
    `Step ${formatStep(step)}`,
    isNumber(reward) ? `reward ${formatNumber(reward)}` : "no reward",
    success === null ? "" : success ? "succeeded" : "failed",
    attempt === "" || attempt === "default" ? "" : `attempt ${shortName(attempt, 12)}`,
    turn === 0 ? "" : `turn ${turn}`,
  ]
    .filter((text) => text !== "")
    .join(" · ");
}

/** `… 212 characters more`, or nothing. */
export const leftOutWords = (count, where) =>
  count === 0 ? "" : `${plural(count, "character")} ${where === "before" ? "before this" : "more"}`;

/** What stands over the response of the baseline. */
export function baselineWords({ baseline, is_same_prompt: isSame, group_ids: groups }) {
  if (isSame) return "At baseline, the same prompt";
  return groups.includes(baseline.group_id)
    ? "At baseline, another prompt of its group"
    : `At baseline, another prompt: ${baseline.group_id}`;
}

/** What is missing, in sentences. */
export const missingWords = ({ reason, baseline_reason: before }) =>
  [reason, before]
    .filter((text) => text !== null)
    .map((text) => `${text[0].toUpperCase()}${text.slice(1)}.`)
    .join(" ");
