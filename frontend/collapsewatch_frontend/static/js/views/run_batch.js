/** The newest scored batch: prompts with their retrieval, heatmap, filter preview, variance buckets. */

import { hasHeatmap, heatmapFigure } from "../figures/heatmap.js";
import { formatNumber, formatPercent, formatStep, plural } from "../format.js";
import { scrollRegion, shareBar } from "./components.js";
import { el, rerender, setText } from "./dom.js";
import { figureCard } from "./figure_card.js";
import { bucketsCard, gradientsCard } from "./run_variance.js";
import { chartTheme } from "./theme.js";

const HEATMAP_INFO = {
  explanation:
    "Row: whose reasoning; column: the prompt that it fits best. A strong diagonal means that reasoning depends on its prompt; a strong column is a prompt that attracts everything.",
  formula: "share of the row’s reasonings with argmax_j L(r, j) = column",
};
const CAUSES = {
  too_easy: "too easy: all at the top",
  too_hard: "too hard: all at the bottom",
  reward_insensitive: "equal rewards, different actions",
  tied: "tied, cause unknown",
};
const MAX_PROMPTS = 64;

export function batchPart() {
  const heading = el("h2", { class: "section-title" });
  const prompts = scrollRegion("Prompts of the newest batch");
  const promptCard = el(
    "section",
    { class: "card", data: { testid: "prompt-table" } },
    cardHead("Prompts"),
    prompts,
  );
  const heatmap = figureCard({
    id: "heatmap",
    title: "Which prompt each reasoning fits",
    info: HEATMAP_INFO,
    size: "square",
  });
  const filters = scrollRegion("Filter preview");
  const filterCard = el(
    "section",
    { class: "card", data: { testid: "filter-preview" } },
    cardHead("Filter preview"),
    el("p", {
      class: "card-note",
      text: "What each reward-variance rule would keep of this batch’s prompt groups.",
    }),
    filters,
  );
  const buckets = bucketsCard();
  const gradients = gradientsCard();
  const root = el(
    "div",
    { hidden: true },
    heading,
    el(
      "div",
      { class: "batch-grid" },
      el("div", { class: "batch-side" }, promptCard, buckets.root),
      el("div", { class: "batch-side" }, heatmap.root, filterCard, gradients.root),
    ),
  );
  return {
    root,
    update(view) {
      const { data } = view;
      const groups = data.summary.groups ?? [];
      const previews = data.summary.filters ?? [];
      const evaluation = data.step?.evaluation ?? null;
      root.hidden = evaluation === null && groups.length === 0;
      setText(heading, headingText(data, evaluation));
      rerender(prompts, JSON.stringify([evaluation?.prompts, groups]), () => [
        promptTable(evaluation?.prompts ?? [], data.step?.groups ?? groups),
      ]);
      promptCard.hidden = evaluation === null;
      updateHeatmap(heatmap, data, evaluation?.prompts ?? []);
      filterCard.hidden = previews.length === 0;
      rerender(filters, JSON.stringify(previews), () => [filterTable(previews)]);
      buckets.update(view);
      gradients.update(view);
    },
    destroy() {
      heatmap.destroy();
      gradients.destroy();
    },
  };
}

const cardHead = (text) => el("header", { class: "figure-head" }, el("h3", { class: "figure-title", text }));

function headingText(data, evaluation) {
  if (evaluation === null) return "Newest batch";
  return `Newest scored batch: step ${formatStep(data.step.step)}, ${plural(evaluation.num_prompts, "prompt")}, ${plural(evaluation.num_rows, "scored reasoning")}`;
}

function updateHeatmap(card, data, prompts) {
  card.root.hidden = prompts.length < 2;
  if (!hasHeatmap(prompts)) {
    card.update({ reason: "The scorer sent no prompt × prompt retrieval." });
    return;
  }
  card.update({
    label: `Heatmap of ${prompts.length} by ${prompts.length} prompts: share of reasonings that fit each prompt best. The prompt table holds the diagonal.`,
    build: ({ compact }) => heatmapFigure({ prompts, compact, theme: chartTheme(), revision: data.runId }),
  });
}

function promptTable(prompts, groups) {
  const byGroup = new Map(groups.map((group) => [group.group_id, group]));
  const shown = prompts.slice(0, MAX_PROMPTS);
  return el(
    "table",
    { class: "data prompt-table" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        ["#", "Prompt", "Retrieved", "Reward", "Std"].map((text, i) =>
          el("th", { scope: "col", class: i > 2 ? "numeric" : null, text }),
        ),
      ),
    ),
    el(
      "tbody",
      {},
      shown.map((prompt, i) =>
        promptRow(prompt, i, prompt.group_ids.map((id) => byGroup.get(id)).filter(Boolean)),
      ),
    ),
    prompts.length > shown.length
      ? el(
          "tfoot",
          {},
          el(
            "tr",
            {},
            el("td", { colspan: 5, class: "faint", text: `and ${prompts.length - shown.length} more` }),
          ),
        )
      : null,
  );
}

function promptRow(prompt, i, groups) {
  const group = groups.length === 1 ? groups[0] : null;
  const cause = group?.cause ? CAUSES[group.cause] : "";
  return el(
    "tr",
    {},
    el("td", { class: "numeric faint", text: String(i + 1) }),
    el(
      "th",
      { scope: "row", class: "cell-prompt" },
      el("span", {
        class: "prompt-text",
        title: prompt.preview,
        text: prompt.preview || prompt.group_ids.join(", "),
      }),
      cause === "" ? null : el("span", { class: "prompt-cause", text: `no reward variance — ${cause}` }),
    ),
    el(
      "td",
      { class: "cell-retrieved" },
      el(
        "span",
        { class: "bar-line" },
        shareBar(prompt.accuracy),
        el("span", { class: "numeric", text: formatPercent(prompt.accuracy) }),
      ),
      el("span", { class: "faint", text: `of ${prompt.num_rows}, chance ${formatPercent(prompt.chance)}` }),
    ),
    el("td", {
      class: "numeric",
      data: { label: "reward" },
      text: group === null ? "–" : formatNumber(group.mean),
    }),
    el("td", {
      class: "numeric",
      data: { label: "std" },
      text: group === null ? "–" : formatNumber(group.std),
    }),
  );
}

function filterTable(previews) {
  return el(
    "table",
    { class: "data" },
    el(
      "thead",
      {},
      el("tr", {}, el("th", { scope: "col", text: "Rule" }), el("th", { scope: "col", text: "Keeps" })),
    ),
    el(
      "tbody",
      {},
      previews.map((preview) => {
        const kept = preview.kept_group_ids.length;
        return el(
          "tr",
          {},
          el("th", { scope: "row", class: "mono", text: preview.rule }),
          el(
            "td",
            { class: "cell-kept" },
            el(
              "span",
              { class: "bar-line" },
              shareBar(kept / Math.max(1, preview.num_groups)),
              el("span", { class: "numeric", text: `${kept} of ${preview.num_groups}` }),
            ),
          ),
        );
      }),
    ),
  );
}
