/** The run's way through the quadrant, step by step. */

import { dependenceFigure } from "../figures/dependence.js";
import { hasPlace, quadrantFigure } from "../figures/quadrant.js";
import { formatNumber, formatStep } from "../format.js";
import { regimeInfo } from "../regimes.js";
import { figureCard } from "./figure_card.js";
import { EARLIER_LEGEND } from "./panel_figure.js";
import { stepPlayer } from "./step_player.js";
import { chartTheme } from "./theme.js";

const INFO = {
  explanation:
    "Each point is one step: to the right reasoning varies more within a prompt, upwards it depends more on the prompt. High and left is terse but specific; low and right is varied text that fits any prompt. Each ellipse spans the two 95 % intervals of its step.",
  formula: "x = H(Z|X) ÷ baseline, y = retrieval skill",
};

/** `charts` is the page's ChartView, whose chosen step the slider moves. */
export function quadrantPart({ charts, subject, share = null }) {
  const card = figureCard({
    id: "quadrant",
    title: "Reasoning quadrant",
    info: INFO,
    size: "hero",
    level: "h2",
    hasLegend: true,
    view: charts,
    subject,
    share,
    onStep: (step) => charts.select(step),
  });
  const player = stepPlayer({ onStep: (step) => charts.select(step) });
  card.root.append(player.root);
  let shown = null;
  const update = (view) => {
    shown = view;
    player.update(view.data.shownTrajectory().points, charts.selected);
    updateCard(card, view, charts.selected);
  };
  const stop = charts.subscribe((change) => {
    if (change === "selected" && shown !== null) update(shown);
  });
  return {
    root: card.root,
    update,
    destroy() {
      stop();
      player.destroy();
      card.destroy();
    },
  };
}

/** The point of the chosen step, or the last one before it; null before any. */
export function pointAt(points, selected) {
  if (points.length === 0) return null;
  if (selected === null) return points[points.length - 1];
  return points.filter((point) => point.step <= selected).pop() ?? points[0];
}

function updateCard(card, { data, ghost }, selected) {
  const trajectory = data.shownTrajectory();
  const point = pointAt(trajectory.points, selected);
  if (point === null) {
    card.update({ reason: "No step has been scored yet." });
    return;
  }
  const whole = trajectory.points.some(hasPlace);
  card.update({
    label:
      `Trajectory of ${data.summary.name} to step ${formatStep(point.step)}: ${regimeInfo(point.regime).name}, ` +
      `retrieval skill ${formatNumber(point.dependence)}, diversity ${formatNumber(point.diversity)} times the baseline.`,
    legendItems: legend({ data, ghost, whole, point, selected }),
    build: ({ compact, ...size }) => {
      const theme = chartTheme();
      const shared = { trajectory, theme, compact, size, revision: `${data.runId} ${data.scope} ${whole}` };
      const ghosts = ghost === null ? [] : [{ ...ghost, colour: theme.series[3] }];
      const behind = { ghosts, earlier: data.earlier() };
      return whole
        ? quadrantFigure({ ...shared, ...behind, alerts: data.shownAlerts(), selected })
        : dependenceFigure({ ...shared, ...behind, alerts: data.shownAlerts(), resumes: data.resumes() });
    },
  });
}

function legend({ data, ghost, whole, point, selected }) {
  const dot = (name, { regime }) => ({
    name,
    colourToken: `regime-${regimeInfo(regime).colour}`,
    shape: "dot",
  });
  const here = dot(selected === null ? "newest step" : `step ${formatStep(point.step)}`, point);
  const earlier = data.earlier().some((attempt) => attempt.points.length > 0) ? [EARLIER_LEGEND] : [];
  const ghosts = ghost === null ? [] : [{ name: ghost.name, colourToken: "series-4", shape: "dot" }];
  if (!whole) {
    const { points } = data.shownTrajectory();
    return [
      dot("newest step", points[points.length - 1]),
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
    here,
    { name: "95 % intervals", colourToken: `regime-${regimeInfo(point.regime).colour}`, shape: "ellipse" },
    { name: "path (mean of 9 steps)", colourToken: "text-soft" },
    { name: baselineWords(data.trajectory.baseline), colourToken: "text", shape: "cross" },
    ...earlier,
    ...ghosts,
  ];
}

function baselineWords(baseline) {
  if (!baseline) return "baseline (not measured yet)";
  const span = `steps ${formatStep(baseline.first_step)}–${formatStep(baseline.last_step)}`;
  return baseline.complete ? `baseline (${span})` : "baseline (still being measured)";
}
