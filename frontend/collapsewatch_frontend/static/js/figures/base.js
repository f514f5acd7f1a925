/** What all figures share: colours, axes, alert lines. Pure: theme and data in, Plotly figure out. */

import { isOpen, severityInfo } from "../alerts.js";
import { formatStep, plotlyText } from "../format.js";

/** `rgb(r, g, b)` or `#rrggbb` with an opacity; other colours come back unchanged. */
export function withAlpha(colour, alpha) {
  const hex = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(colour);
  if (hex !== null) {
    const [red, green, blue] = hex.slice(1).map((part) => parseInt(part, 16));
    return `rgba(${red}, ${green}, ${blue}, ${alpha})`;
  }
  const rgb = /^rgba?\(\s*(\d+)[\s,]+(\d+)[\s,]+(\d+)/.exec(colour);
  return rgb === null ? colour : `rgba(${rgb[1]}, ${rgb[2]}, ${rgb[3]}, ${alpha})`;
}

export function axis(theme, options = {}) {
  const { title, ...rest } = options;
  return {
    gridcolor: theme.grid,
    linecolor: theme.line,
    zeroline: false,
    ticks: "",
    automargin: true,
    tickfont: { color: theme.textFaint, size: theme.fontSize - 1 },
    ...(title === undefined
      ? {}
      : { title: { text: title, standoff: 8, font: { color: theme.textSoft, size: theme.fontSize } } }),
    ...rest,
  };
}

/** The layout every figure starts from. `revision` keeps a person's zoom while data arrives. */
export function baseLayout(theme, { revision, compact = false, margin = {} }) {
  return {
    autosize: true,
    uirevision: revision,
    paper_bgcolor: "rgba(0, 0, 0, 0)",
    plot_bgcolor: "rgba(0, 0, 0, 0)",
    font: { family: theme.font, size: theme.fontSize, color: theme.textSoft },
    margin: { l: 44, r: 14, t: 12, b: 34, ...margin },
    showlegend: false,
    // On a small screen a drag scrolls the page.
    dragmode: compact ? false : "zoom",
    hoverlabel: {
      bgcolor: theme.raised,
      bordercolor: theme.line,
      font: { family: theme.font, size: theme.fontSize, color: theme.text },
      align: "left",
    },
  };
}

/** The shared time axis: training steps, few ticks on a narrow screen. */
export function stepAxis(theme, { range, compact }) {
  const padded = range === null ? undefined : padRange(range);
  return axis(theme, {
    range: padded,
    ...stepTicks(range, compact),
    tickformat: ",d",
    // Once on the axis, and before every step in the text on hover.
    tickprefix: "step ",
    showtickprefix: "first",
    showgrid: false,
    showline: true,
    // The line under the pointer looks like the one that it moves in the other figures.
    spikecolor: theme.textFaint,
    spikethickness: 1,
    spikedash: "solid",
    spikemode: "across",
    fixedrange: compact,
    hoverformat: ",d",
  });
}

/** Every step has its tick while they are few; a step between two steps there is not. */
export function stepTicks(range, compact) {
  if (range === null || range[1] - range[0] > 6) return { nticks: compact ? 5 : 9 };
  const [low, high] = [Math.ceil(range[0]), Math.floor(range[1])];
  const tickvals = Array.from({ length: high - low + 1 }, (_, i) => low + i);
  return { tickvals, ticktext: tickvals.map((step, i) => `${i === 0 ? "step " : ""}${formatStep(step)}`) };
}

function padRange([low, high]) {
  const pad = Math.max(0.5, (high - low) * 0.02);
  return [low - pad, high + pad];
}

const MAX_SPELLED_OUT = 2;

/**
 * Where the training was started again, `[{step, number}]`: dashed lines, named at the foot.
 * @param {any[]} resumes
 * @param {any} theme
 * @param {Record<string, any>} [options]
 */
export function resumeMarks(resumes, theme, { compact = false } = {}) {
  const word = compact || resumes.length > MAX_SPELLED_OUT ? "#" : "attempt ";
  return {
    shapes: resumes.map(({ step }) => ({
      type: "line",
      xref: "x",
      yref: "paper",
      x0: step,
      x1: step,
      y0: 0,
      y1: 1,
      line: { color: theme.textFaint, width: 1, dash: "dash" },
    })),
    annotations: resumes.map(({ step, number }) => ({
      xref: "x",
      yref: "paper",
      x: step,
      xanchor: "left",
      y: 0,
      yanchor: "bottom",
      text: `${word}${number}`,
      font: { color: theme.textFaint, size: theme.fontSize - 2 },
      showarrow: false,
      hovertext: `resumed at step ${formatStep(step)}, attempt ${number}`,
      captureevents: true,
    })),
  };
}

/** Which sign stands for a severity, so that it is told without colour. */
const SIGNS = {
  critical: { text: "◆", symbol: "diamond" },
  warning: { text: "▲", symbol: "triangle-up" },
  info: { text: "●", symbol: "circle" },
};

export const severitySign = (severity) => SIGNS[severity] ?? SIGNS.info;

/** Opacity of an alert's line: what a later attempt replayed is history and stands back. */
function presence(alert) {
  if (alert.superseded === true) return 0.35;
  return isOpen(alert) ? 0.9 : 0.5;
}

/** `Critical: title (step 41)`, as text that Plotly does not read as markup. */
export function alertHover(alert) {
  const where = `step ${formatStep(alert.opened_step)}${alert.superseded === true ? ", in an earlier attempt" : ""}`;
  return plotlyText(`${severityInfo(alert.severity).name}: ${alert.title} (${where})`);
}

/**
 * Alerts as vertical lines, with a sign on top that tells the title on hover. `name` of the sign is the id
 * of its alert, by which a click finds it.
 */
export function alertMarks(alerts, theme) {
  const shapes = [];
  const annotations = [];
  for (const alert of alerts) {
    const colour = theme.severities[alert.severity] ?? theme.severities.info;
    const faint = alert.superseded === true;
    shapes.push({
      type: "line",
      xref: "x",
      yref: "paper",
      x0: alert.opened_step,
      x1: alert.opened_step,
      y0: 0,
      y1: 1,
      line: {
        color: withAlpha(colour, presence(alert)),
        width: 1.25,
        dash: isOpen(alert) ? "solid" : "dot",
      },
    });
    annotations.push({
      name: String(alert.alert_id),
      xref: "x",
      yref: "paper",
      x: alert.opened_step,
      y: 1,
      yanchor: "bottom",
      yshift: -6,
      borderpad: 3,
      text: severitySign(alert.severity).text,
      font: { color: faint ? withAlpha(colour, 0.5) : colour, size: theme.fontSize - 1 },
      showarrow: false,
      hovertext: alertHover(alert),
      captureevents: true,
    });
  }
  return { shapes, annotations };
}
