/** A figure with its title, newest value, explanation and place for the chart. */

import { Chart } from "../charts.js";
import { formatInterval, formatNumber, formatPercent, shortName } from "../format.js";
import { alertHref } from "../routes.js";
import { el, rerender, setText } from "./dom.js";
import { infoButton } from "./components.js";
import { onThemeChange } from "./theme.js";

const LEGEND_LENGTH = 38;

/**
 * Builds the card. `update({build, newest, beside, reason, label, legend})` draws the figure that
 * `build({compact, width, height})` makes, or says `reason` where there is nothing to draw: no value is not 0.
 */
export function figureCard({ id, title, info, size = "normal", level = "h3", hasLegend = false }) {
  const value = el("span", { class: "figure-value", data: { testid: `figure-value-${id}` } });
  const legend = el("div", { class: hasLegend ? "legend legend-reserved" : "legend" });
  const plot = el("div", { class: "plot", role: "figure" });
  const empty = el("p", { class: "figure-empty", hidden: true });
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
      value,
    ),
    legend,
    el("div", { class: "plot-frame" }, plot, empty),
  );
  const say = (text) => {
    setText(empty, text);
    empty.hidden = text === "";
    plot.hidden = text !== "";
  };
  const chart = new Chart(plot, {
    onError: (error) => say(`The figure cannot be drawn: ${error.message}.`),
    // The signs of alerts, and points where one opened, carry its id; other points have other names.
    onMark: (name) => {
      if (/^\d+$/.test(name)) window.location.hash = alertHref(name);
    },
  });
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
      if (build === null) chart.clear();
      else chart.draw(build);
    },
    destroy() {
      stopTheme();
      chart.destroy();
    },
  };
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
