/** The answer to "what is wrong with this run": regime, reason and the numbers behind it. */

import { formatInterval, formatNumber, formatPercent, formatStep, humanise, isNumber } from "../format.js";
import { BATCH, SCORED } from "../panels.js";
import { regimeInfo } from "../regimes.js";
import { el, rerender } from "./dom.js";
import { icon } from "./icons.js";

export function verdictPart() {
  const regime = el("div", { class: "verdict-regime" });
  const facts = el("dl", { class: "facts" });
  const root = el(
    "section",
    { class: "card verdict", "aria-label": "Regime", data: { testid: "verdict" } },
    regime,
    facts,
  );
  return {
    root,
    update({ data }) {
      const current = data.regime();
      const info = regimeInfo(current?.regime);
      root.className = `card verdict regime-${info.colour} tone-${info.tone}`;
      rerender(regime, JSON.stringify(current), () => [
        el("span", { class: "verdict-icon" }, icon(info.icon, 26)),
        el(
          "div",
          {},
          el("p", {
            class: "verdict-name",
            data: { testid: "regime-badge", regime: current?.regime ?? "none" },
            text: info.name,
          }),
          el("p", {
            class: "verdict-reason",
            data: { testid: "regime-reason" },
            text: current?.reason ?? "No batch has been scored yet.",
          }),
          current
            ? el("p", {
                class: "verdict-step",
                text: `at step ${formatStep(current.step)}, scope ${humanise(current.scope)}`,
              })
            : null,
        ),
      ]);
      const list = factsOf(data);
      rerender(facts, JSON.stringify(list), () => list.map(fact));
    },
  };
}

/** The numbers a person asks for first; an absent one says so instead of showing 0. */
function factsOf(data) {
  const point = (place, metric) => data.newest(place, metric);
  const accuracy = point(SCORED, "retrieval_accuracy");
  const chance = point(SCORED, "retrieval_chance");
  const mi = point(SCORED, "mi_seq");
  const ceiling = point(SCORED, "mi_ceiling");
  const entropy = point(SCORED, "conditional_entropy");
  const places = data.trajectory.points;
  const diversity = places[places.length - 1]?.diversity;
  const reward = point(BATCH, "reward");
  const variance = point(BATCH, "reward_variance");
  const zero = point(BATCH, "zero_variance_fraction");
  const valid = point(BATCH, "valid_reasoning_rate");
  return [
    {
      id: "retrieval",
      name: "Retrieval accuracy",
      value: accuracy?.value,
      note: chance ? `chance ${formatNumber(chance.value)}` : "",
      interval: accuracy,
      reason: data.absentReason("retrieval_accuracy"),
    },
    {
      id: "mi",
      name: "Mutual information",
      value: mi?.value,
      note: ceiling ? `of ${formatNumber(ceiling.value)} nats` : "nats",
      reason: data.absentReason("mi_seq"),
    },
    {
      id: "entropy",
      name: "H(Z|X)",
      value: entropy?.value,
      note: isNumber(diversity) ? `${diversity.toFixed(2)} × baseline` : "nats per token",
      reason: data.absentReason("conditional_entropy"),
    },
    {
      id: "reward",
      name: "Reward",
      value: reward?.value,
      note: variance ? `variance ${formatNumber(variance.value)}` : "",
      reason: data.absentReason("reward"),
    },
    {
      id: "zero-variance",
      name: "Zero-variance groups",
      text: formatPercent(zero?.value),
      value: zero?.value,
      note: "no task gradient",
      reason: data.absentReason("zero_variance_fraction"),
    },
    {
      id: "valid",
      name: "Valid reasoning",
      text: formatPercent(valid?.value),
      value: valid?.value,
      note: "of all turns",
      reason: data.absentReason("valid_reasoning_rate"),
    },
  ];
}

function fact({ id, name, value, text, note, interval, reason }) {
  const there = isNumber(value);
  const range = interval ? formatInterval(interval.low, interval.high) : "";
  return el(
    "div",
    { class: "fact", data: { testid: `fact-${id}` } },
    el("dt", { text: name }),
    el(
      "dd",
      {},
      el("span", {
        class: there ? "fact-value" : "fact-value fact-absent",
        text: there ? (text ?? formatNumber(value)) : reason ? "not measured" : "no value yet",
        title: range ? `95 % interval ${range}` : null,
      }),
      el("span", { class: "fact-note", title: there ? null : reason, text: there ? note : (reason ?? "") }),
    ),
  );
}
