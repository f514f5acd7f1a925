/** Names, marks and places of the regimes. Pure. */

/** `colour` names a key of the chart theme and, as `--regime-<colour>`, a token of the style sheet. */
export const REGIMES = {
  diverse_reasoning: { name: "Diverse reasoning", colour: "diverse", icon: "diverse", tone: "good" },
  template_collapse: { name: "Template collapse", colour: "template", icon: "template", tone: "bad" },
  compressed_reasoning: {
    name: "Compressed reasoning",
    colour: "compressed",
    icon: "compressed",
    tone: "watch",
  },
  low_entropy_collapse: { name: "Low-entropy collapse", colour: "entropy", icon: "entropy", tone: "bad" },
  indeterminate: { name: "Indeterminate", colour: "open", icon: "indeterminate", tone: "open" },
  insufficient: { name: "Not enough evidence", colour: "open", icon: "insufficient", tone: "open" },
};

const UNKNOWN = { name: "Not measured yet", colour: "open", icon: "insufficient", tone: "open" };

/** What to show for a regime; an unknown one keeps its own name and never looks healthy. */
export function regimeInfo(regime) {
  if (regime === null || regime === undefined) return UNKNOWN;
  return Object.hasOwn(REGIMES, regime) ? REGIMES[regime] : { ...UNKNOWN, name: regime.replace(/_/g, " ") };
}

/** Floors of the thresholds, used for shading until the run's own baseline is frozen. */
export const FLOOR_THRESHOLDS = {
  low_dependence: 0.1,
  high_dependence: 0.2,
  low_diversity: 0.5,
  high_diversity: 2.0,
};

/**
 * Rectangles of the quadrant within an axis range. The strip between the two dependence thresholds
 * belongs to no named regime.
 */
export function quadrantRegions(thresholds, { x: [left, right], y: [bottom, top] }) {
  const { low_dependence: low, high_dependence: high, low_diversity: few } = thresholds;
  return [
    { regime: "compressed_reasoning", x0: left, x1: few, y0: high, y1: top },
    { regime: "diverse_reasoning", x0: few, x1: right, y0: high, y1: top },
    { regime: "low_entropy_collapse", x0: left, x1: few, y0: bottom, y1: low },
    { regime: "template_collapse", x0: few, x1: right, y0: bottom, y1: low },
  ];
}

/** Axis ranges that hold the points and leave room for the region names, more of it on a narrow screen. */
export function quadrantRange(points, thresholds, { compact = false } = {}) {
  const diversities = points.flatMap((p) => [p.diversity, p.diversity_high]).filter(Number.isFinite);
  const dependences = points.flatMap((p) => [p.dependence, p.dependence_low]).filter(Number.isFinite);
  const right = Math.max(compact ? 1.4 : 1.5, ...diversities.map((value) => value + 0.06));
  const left = Math.min(
    thresholds.low_diversity - (compact ? 0.45 : 0.3),
    ...diversities.map((value) => value - 0.06),
  );
  const bottom = Math.min(-0.08, ...dependences.map((value) => Math.max(-0.3, value) - 0.03));
  return { x: [Math.max(0, left), right], y: [bottom, 1.13] };
}
