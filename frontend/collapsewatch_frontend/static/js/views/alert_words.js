/** What an alert says: its message, what was measured beside it, what its rule may use of the error budget. */

import { budgetWords, ratioWords, sentences, signals } from "../alert_detail.js";
import { formatNumber, formatValue, humanise } from "../format.js";
import { prose, scrollRegion } from "./components.js";
import { el, rerender, setText } from "./dom.js";

const KINDS = {
  own: "what the rule judges",
  corroborating: "points the same way",
  contradicting: "points the other way",
  beside: "measured beside it",
};

export function wordsPart({ metricsInfo }) {
  const lead = el("p", { class: "alert-lead" });
  const rest = el("ul", { class: "alert-sentences" });
  const budget = el("p", { class: "card-note", data: { testid: "alert-budget" } });
  const values = el("dl", { class: "evidence" });
  const table = scrollRegion("Signals at the step and at baseline");
  const signalCard = el(
    "section",
    { class: "card alert-card", data: { testid: "alert-signals" } },
    el("h2", { class: "card-title", text: "Signals beside it" }),
    table,
  );
  const root = el(
    "div",
    { class: "alert-grid" },
    el(
      "section",
      { class: "card alert-card", data: { testid: "alert-text" } },
      el("h2", { class: "card-title", text: "What was measured" }),
      lead,
      rest,
      budget,
      el("details", { class: "alert-evidence" }, el("summary", { text: "All values of the rule" }), values),
    ),
    signalCard,
  );
  return {
    root,
    update(detail) {
      const [first = "", ...others] = sentences(detail.message);
      rerender(lead, first, () => [prose(first)]);
      rerender(rest, others.join("\n"), () => others.map((text) => el("li", {}, prose(text))));
      const evidence = newestEvidence(detail);
      const words = budgetWords(evidence, detail.severity);
      setText(budget, words);
      budget.hidden = words === "";
      const found = signals(evidence);
      signalCard.hidden = found.length === 0;
      rerender(table, JSON.stringify(found), () => [signalTable(found, metricsInfo)]);
      rerender(values, JSON.stringify(evidence), () => valueRows(evidence));
    },
  };
}

/** Of the alert that speaks for the item; a graver one took the place of those before it. */
export function newestEvidence(detail) {
  const alerts = detail.alerts;
  const head = alerts.find((alert) => alert.alert_id === detail.alert_id) ?? alerts[alerts.length - 1];
  return head?.evidence ?? {};
}

function signalTable(found, metricsInfo) {
  const heads = ["Metric", "At the step", "Baseline", ""];
  return el(
    "table",
    { class: "data" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        heads.map((text, i) =>
          text === ""
            ? el("td")
            : el("th", { scope: "col", class: i === 1 || i === 2 ? "numeric" : null, text }),
        ),
      ),
    ),
    el(
      "tbody",
      {},
      found.map((signal) =>
        el(
          "tr",
          {},
          el(
            "th",
            { scope: "row" },
            el("span", {
              class: "signal-name",
              text: metricsInfo[signal.metric]?.title ?? humanise(signal.metric),
            }),
            el("span", { class: `signal-kind signal-${signal.kind}`, text: KINDS[signal.kind] }),
          ),
          el("td", { class: "numeric", text: formatNumber(signal.value) }),
          el("td", { class: "numeric", text: formatNumber(signal.baseline) }),
          el("td", { class: "faint", text: ratioWords(signal) }),
        ),
      ),
    ),
  );
}

function valueRows(evidence) {
  return Object.entries(evidence).map(([key, value]) =>
    el("div", {}, el("dt", { text: humanise(key) }), el("dd", { text: formatValue(value) })),
  );
}
