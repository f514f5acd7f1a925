/** What the batch of an alert's step shows: prompts that are traced back badly, shared phrases. */

import { promptWords } from "../alert_detail.js";
import { formatPercent, formatStep, humanise, plural, scorerWords } from "../format.js";
import { alertsHref, runHref } from "../routes.js";
import { phraseFact } from "../template.js";
import { scrollRegion, shareBar } from "./components.js";
import { el, rerender } from "./dom.js";
import { phraseTable } from "./run_template.js";

export function evidencePart() {
  const body = el("div");
  const root = el(
    "section",
    { "aria-label": "The batch of its step", data: { testid: "alert-batch" } },
    body,
  );
  return {
    root,
    update(detail) {
      const around = detail.evidence_around;
      rerender(
        body,
        JSON.stringify([detail.run_id, around.step, around.prompts, around.link, around.scorer]),
        () =>
          detail.run_id === null || around.step === null ? withoutStep(detail) : batchParts(detail, around),
      );
    },
  };
}

function withoutStep(detail) {
  const link = detail.run_id === null ? alertsHref({ rule: detail.rule }) : runHref(detail.run_id);
  const text = detail.run_id === null ? "All alerts of this rule" : "Open the run";
  return [
    el("h2", { class: "section-title", text: "Evidence" }),
    el("p", {
      class: "card-note",
      text: "This alert is about how things stand now, and about no step; what it says above is all that was measured.",
    }),
    el("p", {}, el("a", { href: link, text })),
  ];
}

function batchParts(detail, around) {
  const prompts = around.prompts.length > 0 ? promptCard(around) : null;
  const template = around.template_evidence;
  const cards = [prompts, template === null ? null : phraseCard(template)].filter(Boolean);
  return [
    el("h2", { class: "section-title", text: `The batch of step ${formatStep(around.step)}` }),
    el(
      "p",
      { class: "card-note" },
      batchWords(around),
      " ",
      el("a", {
        href: runHref(detail.run_id, { scope: around.link?.scope ?? "" }),
        data: { testid: "alert-step-link" },
        text: "See the run’s figures",
      }),
    ),
    cards.length > 0
      ? el("div", { class: "alert-grid" }, cards)
      : el("p", {
          class: "card-note",
          text: "No scores are stored for this step, so prompts and phrases cannot be shown.",
        }),
  ];
}

function batchWords({ scorer, link }) {
  const by = scorer === null ? "" : `Scored by ${scorerWords(scorer)}. `;
  return link === null ? by : `${by}Batch ${link.batch_id}, ${humanise(link.scope)}.`;
}

function promptCard({ prompts }) {
  const region = scrollRegion("Prompts that drove it");
  region.append(
    el(
      "table",
      { class: "data drive-table" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          ["Prompt", "Traced back to it", "Taken for"].map((text) => el("th", { scope: "col", text })),
        ),
      ),
      el("tbody", {}, prompts.map(promptRow)),
    ),
  );
  return el(
    "section",
    { class: "card alert-card", data: { testid: "alert-prompts" } },
    el("h3", { class: "card-title", text: "Prompts that drove it" }),
    el("p", { class: "card-note", text: "Those that fell furthest below what they had, first." }),
    region,
  );
}

function promptRow(prompt) {
  const name = prompt.preview || prompt.group_ids.join(", ");
  const other =
    prompt.taken_for === null
      ? "no other more often"
      : `${prompt.taken_for}, ${formatPercent(prompt.taken_for_share)}`;
  return el(
    "tr",
    {},
    el(
      "th",
      { scope: "row", class: "cell-prompt" },
      el("span", { class: "prompt-text", title: name, text: name }),
      el("span", { class: "faint", text: prompt.group_ids.join(", ") }),
    ),
    el(
      "td",
      {},
      el(
        "span",
        { class: "bar-line" },
        shareBar(prompt.accuracy),
        el("span", { class: "numeric", text: formatPercent(prompt.accuracy) }),
      ),
      el("span", { class: "faint", text: promptWords(prompt) }),
    ),
    el("td", { class: "cell-taken", text: other }),
  );
}

const phrasesFrom = ({ num_reasonings: reasonings, num_prompts: prompts }) =>
  `Measured on words alone, without a model: ${plural(reasonings, "first reasoning")} of ${plural(prompts, "prompt")} of the step.`;

function phraseCard(evidence) {
  const region = scrollRegion("Phrases shared across prompts");
  region.append(phraseTable(evidence));
  return el(
    "section",
    { class: "card alert-card", data: { testid: "alert-phrases" } },
    el("h3", { class: "card-title", text: "Phrases shared across prompts" }),
    el("p", {
      class: "card-note",
      text: evidence.phrases.length === 0 ? phraseFact(evidence) : phrasesFrom(evidence),
    }),
    evidence.phrases.length === 0 ? null : region,
  );
}
