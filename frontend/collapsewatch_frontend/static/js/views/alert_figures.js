/** Small figures of the metrics around the moment of an alert: where it opened, the baseline, the limit. */

import { alertsOnSteps } from "../alerts.js";
import { momentFigures, momentRange } from "../alert_detail.js";
import { formatNumber, formatStep, humanise, isNumber } from "../format.js";
import { lineFigure } from "../figures/lines.js";
import { el, rerender } from "./dom.js";
import { newestEvidence } from "./alert_words.js";
import { figureCard } from "./figure_card.js";
import { chartTheme } from "./theme.js";

const SHARES = { retrieval_accuracy: [0, 1.03], valid_reasoning_rate: [0, 1.03] };

export function figuresPart({ metricsInfo }) {
  const grid = el("div", { class: "figure-grid" });
  const note = el("p", { class: "card-note" });
  const root = el(
    "section",
    { hidden: true, "aria-label": "Around the moment", data: { testid: "alert-figures" } },
    el("h2", { class: "section-title", text: "Around the moment" }),
    note,
    grid,
  );
  const cards = new Map();
  return {
    root,
    update(detail) {
      const evidence = newestEvidence(detail);
      const own = evidence.metric ?? ("skill" in evidence ? "retrieval_skill" : "");
      const figures = momentFigures(detail.evidence_around, evidence, own);
      root.hidden = figures.length === 0;
      rerender(note, JSON.stringify([detail.opened_step, figures.length]), () => [
        el("span", {
          text: `Up to 20 points before and after step ${formatStep(detail.opened_step)}. Each upright line is where the alert opened or grew graver.`,
        }),
      ]);
      for (const [id, card] of cards) {
        if (figures.some((figure) => figure.id === id)) continue;
        card.root.remove();
        card.destroy();
        cards.delete(id);
      }
      for (const figure of figures) {
        if (!cards.has(figure.id)) cards.set(figure.id, createCard(figure, metricsInfo));
        grid.append(cards.get(figure.id).root);
        updateCard(cards.get(figure.id), figure, { detail, range: momentRange(figures) });
      }
    },
    destroy() {
      for (const card of cards.values()) card.destroy();
    },
  };
}

function createCard({ id, metric, scope }, metricsInfo) {
  const info = metricsInfo[metric];
  const title = `${info?.title ?? humanise(metric)} (${humanise(scope)})`;
  return figureCard({ id: `moment-${id}`, title, info });
}

function updateCard(card, figure, { detail, range }) {
  const { metric, series, beside, baseline, limit } = figure;
  const references = [
    isNumber(baseline) ? { value: baseline, name: `baseline ${formatNumber(baseline)}` } : null,
    isNumber(limit) ? { value: limit, name: `limit ${formatNumber(limit)}`, below: true } : null,
  ].filter((reference) => reference !== null);
  const shown = alertsOnSteps(detail.alerts, { earlier: true }).filter(
    ({ opened_step: step }) => step >= range[0] && step <= range[1],
  );
  card.update({
    label: `${humanise(metric)} around step ${formatStep(detail.opened_step)}.`,
    build: ({ compact }) => {
      const theme = chartTheme();
      return lineFigure({
        theme,
        compact,
        references,
        alerts: shown,
        revision: `alert-${detail.thread_id}`,
        stepRange: range,
        yRange: SHARES[metric],
        lines: [
          { name: humanise(metric), series, colour: theme.series[0], band: true },
          ...(beside === null
            ? []
            : [{ name: "chance", series: beside, colour: theme.muted, dash: "dash", muted: true }]),
        ],
      });
    },
  });
}
