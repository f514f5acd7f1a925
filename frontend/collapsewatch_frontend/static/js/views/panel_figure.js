/** A panel's description and a run's series, made into a figure in the current theme. */

import { lineFigure } from "../figures/lines.js";

const seriesColour = (colour, theme) => (colour === "muted" ? theme.muted : theme.series[colour]);
const seriesToken = (colour) => (colour === "muted" ? "series-muted" : `series-${colour + 1}`);

export function panelFigure(panel, lines, { data, compact, theme }) {
  return lineFigure({
    theme,
    compact,
    revision: data.runId,
    alerts: data.alerts,
    references: panel.references,
    yRange: panel.yRange,
    stacked: panel.stacked,
    share: panel.share,
    stepRange: data.stepRange(),
    lines: lines.map((line) => ({
      ...line,
      series: data.series[panel.scope][line.metric],
      colour: seriesColour(line.colour, theme),
    })),
  });
}

export function panelLegend(lines) {
  return lines.map((line) => ({ name: line.name, colourToken: seriesToken(line.colour) }));
}
