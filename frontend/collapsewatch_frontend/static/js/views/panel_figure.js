/** A panel's description and a run's series, made into a figure in the current theme. */

import { lineFigure } from "../figures/lines.js";
import { branch, isEmpty } from "../series.js";

const seriesColour = (colour, theme) => (colour === "muted" ? theme.muted : theme.series[colour]);
const seriesToken = (colour) => (colour === "muted" ? "series-muted" : `series-${colour + 1}`);

export function panelFigure(panel, lines, { data, compact, theme }) {
  return lineFigure({
    theme,
    compact,
    revision: data.runId,
    alerts: data.shownAlerts(),
    resumes: data.resumes(),
    earlier: panel.stacked ? [] : earlierLines(panel, lines, data, theme),
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

/** What earlier attempts logged of a panel's lines; levels such as chance are the same in all. */
function earlierLines(panel, lines, data, theme) {
  return data.earlier().flatMap(({ number, series }) =>
    lines
      .filter((line) => !line.muted && !isEmpty(series[panel.scope][line.metric]))
      .map((line) => ({
        name: `${line.name}, attempt ${number}`,
        series: branch(data.series[panel.scope][line.metric], series[panel.scope][line.metric]),
        colour: seriesColour(line.colour, theme),
      })),
  );
}

/** The lines by name where two would be mixed up, and what is dotted where something is. */
export function panelLegend(panel, lines, data) {
  const named = panel.legend
    ? lines.map((line) => ({ name: line.name, colourToken: seriesToken(line.colour) }))
    : [];
  const main = lines.find((line) => !line.muted);
  const isBranched = ({ series }) => lines.some((line) => !isEmpty(series[panel.scope][line.metric]));
  if (panel.stacked || main === undefined || !data.earlier().some(isBranched)) return named;
  return [...named, { ...EARLIER_LEGEND, colourToken: seriesToken(main.colour) }];
}

export const EARLIER_LEGEND = {
  name: "earlier attempt, superseded",
  colourToken: "text-faint",
  shape: "dotted",
};
