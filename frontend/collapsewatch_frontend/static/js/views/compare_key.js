/** The sign of a run, or of a group of runs: its colour, stroke and mark. */

import { svg } from "./dom.js";

const MARKS = {
  circle: () => svg("circle", { cx: 14, cy: 7, r: 4 }),
  square: () => svg("rect", { x: 10.5, y: 3.5, width: 7, height: 7 }),
  diamond: () => svg("path", { d: "M14 2 L19 7 L14 12 L9 7 Z" }),
};

/** `style` as `runStyle` answers it. */
export function compareKey({ token, dash, symbol }) {
  const node = svg(
    "svg",
    {
      class: `compare-key stroke-${dash}`,
      viewBox: "0 0 28 14",
      width: 28,
      height: 14,
      "aria-hidden": "true",
    },
    svg("line", { x1: 0, x2: 28, y1: 7, y2: 7 }),
    MARKS[symbol](),
  );
  node.style.color = `var(--${token})`;
  return node;
}
