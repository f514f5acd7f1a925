/** The run's figures: quadrant, retrieval, information, entropies, reward, causes, trainer's scalars. */

import { dependenceFigure } from "../figures/dependence.js";
import { hasPlace, quadrantFigure } from "../figures/quadrant.js";
import { formatNumber, formatPercent, formatStep, humanise } from "../format.js";
import { PANELS, TRAINER, trainerPanels } from "../panels.js";
import { regimeInfo } from "../regimes.js";
import { isEmpty } from "../series.js";
import { el, setText } from "./dom.js";
import { figureCard } from "./figure_card.js";
import { EARLIER_LEGEND, panelFigure, panelLegend } from "./panel_figure.js";
import { chartTheme } from "./theme.js";

const QUADRANT_INFO = {
  explanation:
    "Each point is one step: to the right reasoning varies more within a prompt, upwards it depends more on the prompt. High and left is terse but specific; low and right is varied text that fits any prompt.",
  formula: "x = H(Z|X) ÷ baseline, y = retrieval skill",
};

export function chartsPart({ metricsInfo }) {
  const quadrant = figureCard({
    id: "quadrant",
    title: "Reasoning quadrant",
    info: QUADRANT_INFO,
    size: "hero",
    level: "h2",
    hasLegend: true,
  });
  const cards = PANELS.map((panel) => ({ panel, card: cardOf(panel, metricsInfo) }));
  const tall = cards.filter(({ panel }) => panel.size === "tall");
  const small = cards.filter(({ panel }) => panel.size !== "tall");
  const trainer = trainerPart(metricsInfo);
  const root = el(
    "div",
    { class: "charts-part" },
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
    trainer.root,
  );
  return {
    root,
    update(view) {
      updateQuadrant(quadrant, view);
      for (const { panel, card } of cards) updatePanel(card, panel, view.data);
      trainer.update(view);
    },
    destroy() {
      quadrant.destroy();
      for (const { card } of cards) card.destroy();
      trainer.destroy();
    },
  };
}

function cardOf(panel, metricsInfo) {
  const info = metricsInfo[panel.metric];
  return figureCard({ id: panel.id, title: panel.title, size: panel.size, info, hasLegend: panel.legend });
}

function updateQuadrant(card, { data, ghost }) {
  const { trajectory } = data;
  const last = trajectory.points[trajectory.points.length - 1];
  if (last === undefined) {
    card.update({ reason: "No step has been scored yet." });
    return;
  }
  const whole = trajectory.points.some(hasPlace);
  card.update({
    label:
      `Trajectory of ${data.summary.name} to step ${formatStep(last.step)}: ${regimeInfo(last.regime).name}, ` +
      `retrieval skill ${formatNumber(last.dependence)}, diversity ${formatNumber(last.diversity)} times the baseline.`,
    legendItems: quadrantLegend(data, ghost, whole),
    build: ({ compact, ...size }) => {
      const theme = chartTheme();
      const shared = { trajectory, theme, compact, size, revision: `${data.runId} ${data.scope} ${whole}` };
      const ghosts = ghost === null ? [] : [{ ...ghost, colour: theme.series[3] }];
      const behind = { ghosts, earlier: data.earlier() };
      return whole
        ? quadrantFigure({ ...shared, ...behind, alerts: data.shownAlerts() })
        : dependenceFigure({ ...shared, ...behind, alerts: data.shownAlerts(), resumes: data.resumes() });
    },
  });
}

function quadrantLegend(data, ghost, whole) {
  const { points, baseline } = data.trajectory;
  const newest = {
    name: "newest step",
    colourToken: `regime-${regimeInfo(points[points.length - 1].regime).colour}`,
    shape: "dot",
  };
  const earlier = data.earlier().some((attempt) => attempt.points.length > 0) ? [EARLIER_LEGEND] : [];
  const ghosts = ghost === null ? [] : [{ name: ghost.name, colourToken: "series-4", shape: "dot" }];
  if (!whole) {
    return [
      newest,
      ...earlier,
      ...ghosts,
      {
        name: "diversity is unknown: only the vertical axis, over the steps",
        title: data.absentReason("conditional_entropy"),
        shape: "none",
      },
    ];
  }
  return [
    newest,
    { name: "path (mean of 9 steps)", colourToken: "text-soft" },
    { name: baselineWords(baseline), colourToken: "text", shape: "cross" },
    ...earlier,
    ...ghosts,
  ];
}

function baselineWords(baseline) {
  if (!baseline) return "baseline (not measured yet)";
  const span = `steps ${formatStep(baseline.first_step)}–${formatStep(baseline.last_step)}`;
  return baseline.complete ? `baseline (${span})` : "baseline (still being measured)";
}

/** Draws one panel, or says why there is nothing to draw. */
export function updatePanel(card, panel, data) {
  const series = data.series[panel.scope];
  const lines = panel.lines.filter((line) => !isEmpty(series[line.metric]));
  const main = data.newest(panel.scope, panel.metric);
  if (lines.length === 0) {
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
function trainerPart(metricsInfo) {
  const heading = el("h2", { class: "section-title", text: "Sent by the trainer" });
  const grid = el("div", { class: "figure-grid" });
  const rest = el("p", { class: "faint" });
  const root = el("div", { hidden: true, data: { testid: "trainer-scalars" } }, heading, grid, rest);
  const cards = new Map();
  return {
    root,
    update({ data }) {
      const names = Object.keys(data.series[TRAINER]);
      const { panels, left } = trainerPanels(names);
      root.hidden = panels.length === 0;
      for (const panel of panels) {
        if (!cards.has(panel.id)) {
          const title = metricsInfo[panel.metric]?.title ?? humanise(panel.metric);
          const card = cardOf({ ...panel, title }, metricsInfo);
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
