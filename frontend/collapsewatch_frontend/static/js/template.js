/** What the shared phrases of a batch say, in words. Pure. */

import { formatNumber, isNumber, plural } from "./format.js";

/** Who measured what; or why there is nothing. */
export function templateFact(evidence, reason) {
  if (evidence === null) return reason === null ? "Not measured yet." : `Not measured: ${reason}.`;
  const size = isNumber(evidence.compression_ratio)
    ? ` All of them together compress to ${formatNumber(evidence.compression_ratio)} of their size.`
    : "";
  return (
    "Measured by the worker on words alone, without a model: " +
    `${plural(evidence.num_reasonings, "first reasoning")} of ${plural(evidence.num_prompts, "prompt")} ` +
    `of the newest scored batch.${size}`
  );
}

/** Said in place of an empty list. */
export function phraseFact(evidence) {
  if (evidence.phrases_removed)
    return "The shared phrases were removed with the text, which the project keeps for some days only.";
  return `No phrase of ${plural(evidence.min_words, "word")} is shared by ${plural(evidence.min_prompts, "prompt")} of ${evidence.num_prompts}.`;
}
