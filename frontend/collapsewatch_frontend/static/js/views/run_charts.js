/** The run's figures: quadrant, retrieval, information, entropies, reward, causes, trainer's scalars. */

import { formatNumber, formatPercent, formatStep, humanise } from "../format.js";
import { PANELS, TRAINER, trainerPanels } from "../panels.js";
import { isEmpty } from "../series.js";
import { chartTools } from "./chart_tools.js";
import { el, setText } from "./dom.js";
import { figureCard } from "./figure_card.js";
import { moreMeasures } from "./more_measures.js";
import { panelFigure, panelLegend } from "./panel_figure.js";
import { quadrantPart } from "./run_quadrant.js";
import { panelShare, quadrantShare } from "./share_dialog.js";
import { chartTheme } from "./theme.js";

/** `charts` is the page's ChartView: its figures are smoothed, zoomed and pointed at together. */
export function chartsPart({ metricsInfo, data, charts, subject, onView, onMore }) {
  const shared = { view: charts, subject, onStep: (step) => charts.select(step), data };
  const tools = chartTools({ view: charts, onChange: onView });
  const quadrant = quadrantPart({ charts, subject, share: () => quadrantShare(data) });
  const cards = PANELS.map((panel) => ({ panel, card: cardOf(panel, metricsInfo, shared) }));
  const tall = cards.filter(({ panel }) => panel.size === "tall");
  const small = cards.filter(({ panel }) => panel.size !== "tall");
  const more = moreMeasures({ makeCard: (panel) => cardOf(panel, metricsInfo, shared), updatePanel, onMore });
  const trainer = trainerPart(metricsInfo, shared);
  const root = el(
    "div",
    { class: "charts-part" },
    tools.root,
    el(
      "div",
      { class: "hero-grid" },
      quadrant.root,
      el(
        "div",
        { class: "hero-side" },
        tall.map(({ card }) => card.root),
      ),
    ),
    el("h2", { class: "section-title", text: "Reward and reasoning" }),
    el(
      "div",
      { class: "figure-grid" },
      small.map(({ card }) => card.root),
    ),
    more.root,
    trainer.root,
  );
  return {
    root,
    update(view) {
      tools.update(view.data.stepRange());
      quadrant.update(view);
      this.zoomed(view);
    },
    /** Draws the figures over steps, after another stretch of them came in full. */
    zoomed(view) {
      for (const { panel, card } of cards) updatePanel(card, panel, view.data);
      more.update(view);
      trainer.update(view);
    },
    destroy() {
      tools.destroy();
      quadrant.destroy();
      for (const { card } of cards) card.destroy();
      more.destroy();
      trainer.destroy();
    },
  };
}

function cardOf(panel, metricsInfo, { data, ...shared }) {
  const { id, title, size, metric, legend: hasLegend } = panel;
  const share = () => panelShare(panel, title, data);
  return figureCard({ id, title, size, info: metricsInfo[metric], hasLegend, share, ...shared });
}

/** Draws one panel, or says why there is nothing to draw. */
export function updatePanel(card, panel, data) {
  const series = data.series[panel.scope];
  const lines = panel.lines.filter((line) => !isEmpty(series[line.metric]));
  const main = data.newest(panel.scope, panel.metric);
  if (lines.length === 0) {
    if (data.hasLoaded?.(panel.scope) === false) return card.update({ reason: "Loading…" });
    const reason = data.absentReason(panel.metric);
    card.update({ reason: reason === null ? "No value yet." : `Not measured: ${reason}.` });
    return;
  }
  const beside = panel.beside ? data.newest(panel.scope, panel.beside.metric) : null;
  card.update({
    share: panel.share,
    // An interval of a stacked total would be read as one of the causes'.
    newest: main !== null && panel.stacked ? { value: main.value } : main,
    beside: beside === null ? null : { name: panel.beside.name, value: beside.value },
    legendItems: panelLegend(panel, lines, data),
    label:
      main === null
        ? panel.title
        : `${panel.title}: ${panel.share ? formatPercent(main.value) : formatNumber(main.value)} at step ${formatStep(main.step)}`,
    build: ({ compact }) => panelFigure(panel, lines, { data, compact, theme: chartTheme() }),
  });
}

/** The trainer's own scalars; the cards follow the names that arrive. */
function trainerPart(metricsInfo, shared) {
  const heading = el("h2", { class: "section-title", text: "Sent by the trainer" });
  const grid = el("div", { class: "figure-grid" });
  const rest = el("p", { class: "faint" });
  const root = el("div", { hidden: true, data: { testid: "trainer-scalars" } }, heading, grid, rest);
  const cards = new Map();
  return {
    root,
    update({ data }) {
      const names = data.summary.metrics?.[TRAINER] ?? [];
      const { panels, left } = trainerPanels(names);
      root.hidden = panels.length === 0;
      for (const panel of panels) {
        if (!cards.has(panel.id)) {
          const title = metricsInfo[panel.metric]?.title ?? humanise(panel.metric);
          const card = cardOf({ ...panel, title }, metricsInfo, shared);
          cards.set(panel.id, card);
          grid.append(card.root);
        }
        updatePanel(cards.get(panel.id), panel, data);
      }
      setText(rest, left === 0 ? "" : `${left} more scalars are stored and not drawn here.`);
    },
    destroy() {
      for (const card of cards.values()) card.destroy();
    },
  };
}
