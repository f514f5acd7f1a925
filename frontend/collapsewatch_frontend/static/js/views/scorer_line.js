/** Who scored a run, what the scores can tell, and what part of the reasonings they are of. */

import { samplingWords, scorerWords } from "../format.js";
import { el } from "./dom.js";

/** `sampling` is null where the worker did not say. */
export function scorerParts(scorer, sampling) {
  const role = scorer.is_policy
    ? "policy: estimates the policy’s own I(X;Z)"
    : "proxy: not the policy’s own I(X;Z)";
  return [
    el("span", { text: "Scored by " }),
    el("strong", { text: scorerWords(scorer) }),
    el("span", { class: `chip ${scorer.is_policy ? "chip-good" : "chip-warn"}`, text: role }),
    scorer.retokenised
      ? el("span", {
          class: "chip chip-warn",
          title: "The text was tokenised again, so the scorer may differ from the sampler.",
          text: "re-tokenised",
        })
      : null,
    sampling === null
      ? null
      : el("span", {
          class: "sampling",
          title: "What part of the newest evaluation’s reasonings was scored, and how it was chosen.",
          data: { testid: "sampling" },
          text: samplingWords(sampling),
        }),
  ];
}
