/** Which prompt each prompt's reasonings are traced back to. Pure. */

import { plotlyText, truncate } from "../format.js";
import { axis, baseLayout } from "./base.js";

/**
 * Rows: whose reasoning; columns: the prompt that it fits best. The diagonal is the own prompt.
 *
 * `prompts` stand in the order in which they shall be drawn; `number` names them, else their place does.
 * `difference` says that the shares are changes, −1 to 1.
 */
export function heatmapFigure({ prompts, theme, compact = false, revision, difference = false }) {
  const labels = prompts.map((prompt, i) => String(prompt.number ?? i + 1));
  const texts = prompts.map((prompt) => plotlyText(truncate(prompt.preview || prompt.group_ids[0], 60)));
  const ticks = { type: "category", showgrid: false, fixedrange: true, nticks: compact ? 8 : 16 };
  return {
    table: () => ({
      columns: ["reasoning of prompt", ...labels.map((label) => `fits prompt ${label}`)],
      rows: prompts.map((prompt, i) => [`${labels[i]}: ${prompt.group_ids.join(" ")}`, ...prompt.retrieved]),
    }),
    data: [
      {
        type: "heatmap",
        x: labels,
        y: labels,
        z: prompts.map((prompt) => prompt.retrieved),
        zmin: difference ? -1 : 0,
        zmax: 1,
        xgap: prompts.length <= 32 ? 1.5 : 0,
        ygap: prompts.length <= 32 ? 1.5 : 0,
        colorscale: difference ? changeScale(theme) : shareScale(theme),
        showscale: false,
        customdata: prompts.map((_, i) => prompts.map((__, j) => [texts[i], texts[j]])),
        hovertemplate: difference
          ? "<b>%{z:+.0%}</b> of the reasonings of prompt %{y}<br>%{customdata[0]}<br>" +
            "against the other step fit prompt %{x} best<br>%{customdata[1]}<extra></extra>"
          : "<b>%{z:.0%}</b> of the reasonings of prompt %{y}<br>%{customdata[0]}<br>" +
            "fit prompt %{x} best<br>%{customdata[1]}<extra></extra>",
      },
    ],
    layout: {
      ...baseLayout(theme, { revision, compact, margin: { l: 40, t: 8, r: 8, b: 40 } }),
      dragmode: false,
      xaxis: axis(theme, { ...ticks, title: "prompt that fits best" }),
      yaxis: axis(theme, { ...ticks, title: "reasoning of prompt", autorange: "reversed" }),
    },
  };
}

const shareScale = (theme) => [
  [0, theme.sunken],
  [0.25, theme.scale[1]],
  [0.6, theme.scale[2]],
  [1, theme.scale[3]],
];

/** Less than before in orange, more in blue: told apart under the common colour-vision deficiencies. */
const changeScale = (theme) => [
  [0, theme.series[1]],
  [0.5, theme.sunken],
  [1, theme.series[0]],
];

/** Whether every row of the matrix is there, so that it can be drawn. */
export function hasHeatmap(prompts) {
  return prompts.length > 1 && prompts.every((prompt) => prompt.retrieved?.length === prompts.length);
}
