/** Gradient norm over reward variance, bucket by bucket, with its bound. Pure. */

import { isNumber } from "../format.js";
import { axis, baseLayout } from "./base.js";

/** `points` as `gradientPoints` makes them. Figure 3 of the paper, with the bound of its theorem H.2. */
export function gradientFigure({ points, theme, compact = false, revision }) {
  const traces = [
    trace(points, "bound", "bound on the task’s", {
      mode: "lines",
      line: { color: theme.muted, width: 1.5, dash: "dash" },
    }),
    trace(points, "regularisation", "regularisation", markedLine(theme.series[1], "square")),
    trace(points, "task", "task", markedLine(theme.series[0], "circle")),
  ];
  return {
    data: traces.filter((each) => each.x.length > 0),
    layout: {
      ...baseLayout(theme, { revision, compact, margin: { b: 44 } }),
      hovermode: "closest",
      dragmode: false,
      xaxis: axis(theme, {
        title: "√ of the bucket’s mean reward variance",
        rangemode: "tozero",
        nticks: compact ? 4 : 6,
        showgrid: false,
        showline: true,
        fixedrange: true,
      }),
      yaxis: axis(theme, {
        title: "gradient norm",
        rangemode: "tozero",
        nticks: compact ? 4 : 5,
        fixedrange: true,
      }),
    },
  };
}

const markedLine = (colour, symbol) => ({
  mode: "lines+markers",
  line: { color: colour, width: 2 },
  marker: { color: colour, size: 8, symbol },
});

function trace(points, key, name, style) {
  const shown = points.filter((point) => isNumber(point[key])).sort((a, b) => a.x - b.x);
  return {
    type: "scatter",
    name,
    x: shown.map((point) => point.x),
    y: shown.map((point) => point[key]),
    customdata: shown.map((point) => [point.name, point.numGroups]),
    hovertemplate: `<b>%{y:.4~g}</b> ${name}<br>%{customdata[0]}, groups: %{customdata[1]}, √variance %{x:.3~f}<extra></extra>`,
    cliponaxis: false,
    ...style,
  };
}
