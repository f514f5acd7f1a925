/** Tokens shaded by how much they were to be expected. */

import { SHADE_LIMITS, shadeOf, tokensFact, tokenWords } from "../rollouts.js";
import { el } from "./dom.js";

/** `{heading, text, fact}` of a token series: nodes of its text, or a cell for each token where it is unknown. */
export function tokenParts(series) {
  const heading = series.source === "scorer" ? "Reasoning under its own prompt" : "As sampled";
  return { heading, fact: tokensFact(series), text: series.pieces === null ? cells(series) : pieces(series) };
}

function pieces({ pieces: texts, log_probs: values, before, after }) {
  return [
    before,
    ...texts.map((text, i) =>
      el("span", { class: `token shade-${shadeOf(values[i])}`, title: tokenWords(values[i]), text }),
    ),
    after,
  ];
}

function cells({ log_probs: values, token_ids: ids }) {
  return values.map((value, i) => {
    const id = ids?.[i] ?? null;
    const words = tokenWords(value, id);
    return el("span", {
      class: `token token-cell shade-${shadeOf(value)}`,
      title: words,
      text: id === null ? "·" : String(id),
    });
  });
}

/** What the shades mean. */
export function shadeLegend() {
  const steps = [...SHADE_LIMITS.map((limit) => `≥ ${limit}`), `< ${SHADE_LIMITS.at(-1)}`];
  return el(
    "p",
    { class: "shade-legend", hidden: true, data: { testid: "shade-legend" } },
    el("span", { class: "faint", text: "p of each token" }),
    steps.map((text, level) => el("span", { class: `token shade-${level}`, text })),
  );
}
