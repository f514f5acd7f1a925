/** A figure with its title, newest value, explanation and place for the chart. */

import { mayInAll } from "../access.js";
import { Chart } from "../charts.js";
import { csvText, fileName, figureTable } from "../figures/table.js";
import { formatInterval, formatNumber, formatPercent, plotlyText, plural, shortName } from "../format.js";
import { alertHref } from "../routes.js";
import { el, rerender, setText } from "./dom.js";
import { infoButton } from "./components.js";
import { saveFile, saveText } from "./downloads.js";
import { figureMenu } from "./figure_menu.js";
import { toggleFull } from "./full_screen.js";
import { openShareDialog } from "./share_dialog.js";
import { chartTheme, onThemeChange } from "./theme.js";
import { showNote } from "./toasts.js";

const LEGEND_LENGTH = 38;

/**
 * Builds the card. `update({build, newest, beside, reason, label, legend})` draws the figure that
 * `build({compact, width, height})` makes, or says `reason` where there is nothing to draw: no value is not 0.
 * Cards that are given one `view` (chart_view.js) are smoothed, zoomed and pointed at together; `onStep` gets the
 * step of a click, `subject()` tells whose figure it is, for pictures and file names, `share()` what a link to it
 * shows (share_dialog.js); without it none is offered.
 * @param {Record<string, any>} card
 */
export function figureCard({
  id,
  title,
  info,
  size = "normal",
  level = "h3",
  hasLegend = false,
  view = null,
  onStep,
  subject = () => [],
  share = null,
}) {
  const value = el("span", { class: "figure-value", data: { testid: `figure-value-${id}` } });
  const legend = el("div", { class: hasLegend ? "legend legend-reserved" : "legend" });
  const plot = el("div", { class: "plot", role: "figure" });
  const empty = el("p", { class: "figure-empty", hidden: true });
  const note = el("p", { class: "figure-note", hidden: true });
  const menu = figureMenu(
    title,
    menuItems({ id, full: () => toggleFull(root), save: (format) => save(format).catch(sayFault), share }),
  );
  const root = el(
    "section",
    { class: `card figure figure-${size}`, data: { testid: `figure-${id}` }, "aria-label": title },
    el(
      "header",
      { class: "figure-head" },
      el(
        level,
        { class: "figure-title" },
        el("span", { text: title }),
        info ? infoButton(title, info) : null,
      ),
      el("span", { class: "figure-end" }, value, menu.root),
    ),
    legend,
    el("div", { class: "plot-frame" }, plot, empty, note),
  );
  const say = (text) => {
    setText(empty, text);
    empty.hidden = text === "";
    plot.hidden = text !== "";
  };
  const sayFault = (error) => say(`The figure cannot be drawn: ${error.message}.`);
  const chart = new Chart(plot, {
    view,
    onStep,
    onError: sayFault,
    onDrawn: ({ numLeftOut = 0 }) => {
      note.hidden = numLeftOut === 0;
      setText(note, numLeftOut === 0 ? "" : `${plural(numLeftOut, "value")} of 0 or less not drawn`);
    },
    // The signs of alerts, and points where one opened, carry its id; other points have other names.
    onMark: (name) => {
      if (/^\d+$/.test(name)) window.location.hash = alertHref(name);
    },
  });
  async function save(format) {
    if (chart.figure === null) return;
    const words = [...subject(), title];
    if (format === "csv") {
      const table = figureTable(chart.figure, view ?? {});
      if (table !== null) saveText(csvText(table), fileName(words, "csv"), "text/csv");
      return;
    }
    const { surface: ground, text: textColour } = chartTheme();
    const heading = plotlyText([title, ...subject()].join(" · "));
    saveFile(await chart.picture({ format, title: heading, ground, textColour }), fileName(words, format));
  }
  const stopTheme = onThemeChange(() => chart.redraw());
  return {
    root,
    update({
      build = null,
      newest = null,
      beside = null,
      share = false,
      reason = "",
      label = title,
      legendItems = [],
    }) {
      showValue(value, newest, { beside, format: share ? formatPercent : formatNumber });
      showLegend(legend, legendItems);
      plot.setAttribute("aria-label", label);
      say(build === null ? reason : "");
      menu.root.hidden = build === null;
      note.hidden = build === null || note.textContent === "";
      if (build === null) chart.clear();
      else chart.draw(build);
    },
    destroy() {
      stopTheme();
      menu.destroy();
      chart.destroy();
    },
  };
}

function menuItems({ id, full, save, share }) {
  const shareItem = {
    text: "Share this chart",
    icon: "link",
    testid: "figure-share",
    run: () => openShareDialog(share()),
    isFor: () => mayInAll("run.share", share().projects),
  };
  return [
    { text: "Full screen", icon: "full", testid: "figure-full", run: full },
    { text: "Save as PNG", icon: "picture", testid: "figure-png", run: () => save("png") },
    { text: "Save as SVG", icon: "picture", testid: "figure-svg", run: () => save("svg") },
    { text: "Save numbers as CSV", icon: "table", testid: "figure-csv", run: () => save("csv") },
    { text: "Copy link", icon: "link", testid: "figure-link", run: () => copyLink(id) },
    ...(share === null ? [] : [shareItem]),
  ];
}

/** The address of the page as it is, which leads to this figure. */
async function copyLink(id) {
  const [place, query = ""] = window.location.hash.split("?", 2);
  const params = new URLSearchParams(query);
  params.set("chart", id);
  const address = `${window.location.href.split("#", 1)[0]}${place}?${params}`;
  try {
    await navigator.clipboard.writeText(address);
    showNote("The link is copied.");
  } catch {
    window.location.hash = `${place}?${params}`;
    showNote("The link stands in the address bar; copying was refused.");
  }
}

function showValue(host, newest, { beside, format }) {
  if (newest === null) return rerender(host, "", () => []);
  const interval = formatInterval(newest.low, newest.high, format);
  const besideText = beside === null ? "" : `${beside.name} ${format(beside.value)}`;
  return rerender(host, [newest.value, interval, besideText].join("|"), () => [
    el("strong", { text: format(newest.value) }),
    interval === "" ? null : el("span", { class: "figure-interval", title: "95 % interval", text: interval }),
    besideText === "" ? null : el("span", { class: "figure-beside", text: besideText }),
  ]);
}

/** `items`: `{name, colourToken?, shape?, title?}`. Only where two or more lines would be mixed up. */
function showLegend(host, items) {
  rerender(host, JSON.stringify(items), () =>
    items.map((item) => {
      const key = el("span", { class: `legend-key legend-${item.shape ?? "line"}`, "aria-hidden": "true" });
      key.style.color = `var(--${item.colourToken})`;
      if (item.shape === "none")
        return el("span", { class: "legend-item", title: item.title, text: item.name });
      const text = shortName(item.name, LEGEND_LENGTH);
      const title = item.title ?? (text === item.name ? null : item.name);
      return el("span", { class: "legend-item", title }, key, el("span", { text }));
    }),
  );
}
