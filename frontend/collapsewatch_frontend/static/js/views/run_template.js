/** Words that reasonings of different prompts share, and how alike a compressor finds them over the steps. */

import { formatPercent, plural } from "../format.js";
import { TEMPLATE_PANEL } from "../panels.js";
import { phraseFact, templateFact } from "../template.js";
import { scrollRegion, shareBar } from "./components.js";
import { el, rerender, setText } from "./dom.js";
import { figureCard } from "./figure_card.js";
import { updatePanel } from "./run_charts.js";

export function templatePart({ metricsInfo }) {
  const fact = el("p", { class: "card-note" });
  const phrases = scrollRegion("Phrases shared across prompts");
  const phraseCard = el(
    "section",
    { class: "card", data: { testid: "shared-phrases" } },
    el(
      "header",
      { class: "figure-head" },
      el("h3", { class: "figure-title", text: "Phrases shared across prompts" }),
    ),
    fact,
    phrases,
  );
  const ratio = figureCard({
    id: TEMPLATE_PANEL.id,
    title: TEMPLATE_PANEL.title,
    info: metricsInfo[TEMPLATE_PANEL.metric],
  });
  const root = el(
    "section",
    { hidden: true, "aria-label": "Template", data: { testid: "template" } },
    el("h2", { class: "section-title", text: "Template" }),
    el("div", { class: "batch-grid" }, phraseCard, ratio.root),
  );
  return {
    root,
    update({ data }) {
      const evidence = data.summary.template_evidence ?? null;
      const reason = data.absentReason(TEMPLATE_PANEL.metric);
      root.hidden = evidence === null && reason === null;
      setText(fact, templateFact(evidence, reason));
      rerender(phrases, JSON.stringify(evidence), () => [phraseTable(evidence)]);
      updatePanel(ratio, TEMPLATE_PANEL, data);
    },
    destroy: () => ratio.destroy(),
  };
}

/** The phrases of the evidence as a table; nothing without evidence. */
export function phraseTable(evidence) {
  if (evidence === null) return null;
  if (evidence.phrases.length === 0) return el("p", { text: phraseFact(evidence) });
  return el(
    "table",
    { class: "data" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ["Phrase", "In reasonings", "Prompts"].map((text, i) =>
          el("th", { scope: "col", class: i === 2 ? "numeric" : null, text }),
        ),
      ),
    ),
    el(
      "tbody",
      {},
      evidence.phrases.map((phrase) => phraseRow(phrase, evidence)),
    ),
  );
}

function phraseRow(phrase, evidence) {
  return el(
    "tr",
    {},
    el(
      "th",
      { scope: "row", class: "cell-prompt" },
      el("span", {
        class: "prompt-text",
        title: `${plural(phrase.num_words, "word")}: ${phrase.text}`,
        text: phrase.text,
      }),
    ),
    el(
      "td",
      {},
      el(
        "span",
        { class: "bar-line" },
        shareBar(phrase.coverage),
        el("span", { class: "numeric", text: formatPercent(phrase.coverage) }),
      ),
    ),
    el("td", { class: "numeric", text: `${phrase.num_prompts} of ${evidence.num_prompts}` }),
  );
}
