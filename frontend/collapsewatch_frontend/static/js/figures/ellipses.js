/** The 95 % intervals of points in the plane, as ellipses. Pure. */

import { isNumber } from "../format.js";
import { regimeInfo } from "../regimes.js";
import { withAlpha } from "./base.js";

const CORNERS = 48;
/** More of them would hide the points that they are about. */
const MOST_FAINT = 12;

/**
 * Outline of the ellipse whose half axes are the two intervals of a point, each side as long as its own limit
 * says; null where a limit is not known. The intervals are those of each axis alone: it is no joint region.
 */
export function ellipseOutline(point) {
  const { diversity, diversity_low: left, diversity_high: right } = point;
  const { dependence, dependence_low: bottom, dependence_high: top } = point;
  if (![diversity, left, right, dependence, bottom, top].every(isNumber)) return null;
  const angles = Array.from({ length: CORNERS + 1 }, (_, i) => (2 * Math.PI * i) / CORNERS);
  return {
    x: angles.map((angle) => {
      const part = Math.cos(angle);
      return diversity + part * (part >= 0 ? right - diversity : diversity - left);
    }),
    y: angles.map((angle) => {
      const part = Math.sin(angle);
      return dependence + part * (part >= 0 ? top - dependence : dependence - bottom);
    }),
  };
}

/** The ellipse of one point in a colour; nothing where its intervals are not known. */
export function ellipseTrace(point, colour, { fill = 0.12, line = 0.55 } = {}) {
  const outline = ellipseOutline(point);
  if (outline === null) return [];
  return [
    {
      type: "scatter",
      mode: "lines",
      ...outline,
      fill: "toself",
      fillcolor: withAlpha(colour, fill),
      line: { color: withAlpha(colour, line), width: line > 0 ? 1.5 : 0 },
      hoverinfo: "skip",
      showlegend: false,
    },
  ];
}

/** The ellipse of the last point, strong, and of a few before it, evenly taken, faint. */
export function intervalTraces(points, theme) {
  if (points.length === 0) return [];
  const before = points.slice(0, -1);
  const stride = Math.max(1, Math.ceil(before.length / MOST_FAINT));
  const faint = before.filter((_, i) => (before.length - 1 - i) % stride === 0);
  const last = points[points.length - 1];
  return [
    ...faint.flatMap((point) => ellipseTrace(point, theme.textFaint, { fill: 0.05, line: 0.16 })),
    ...ellipseTrace(last, theme.regimes[regimeInfo(last.regime).colour], { fill: 0.16, line: 0.7 }),
  ];
}
