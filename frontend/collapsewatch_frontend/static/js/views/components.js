/** Small parts that every screen uses. */

import { severityInfo } from "../alerts.js";
import { codeParts, formatNumber, formatStep, plural } from "../format.js";
import { regimeInfo } from "../regimes.js";
import { runStateInfo } from "../run_states.js";
import { sparklinePoints, sparklineY } from "../series.js";
import { workerStateInfo } from "../service.js";
import { el, svg } from "./dom.js";
import { icon } from "./icons.js";

/** A regime as icon and name, in its colour. */
export function regimeBadge(regime) {
  const info = regimeInfo(regime);
  return el(
    "span",
    { class: `badge regime-${info.colour}`, data: { testid: "regime-badge", regime: regime ?? "none" } },
    icon(info.icon),
    el("span", { text: info.name }),
  );
}

export function severityBadge(severity) {
  const info = severityInfo(severity);
  return el(
    "span",
    { class: `badge badge-solid severity-${severity}` },
    icon(info.icon, 14),
    el("span", { text: info.name }),
  );
}

/** A state as icon and word: `{name, icon, tone, hint?}`, of a run or of a worker. */
function stateBadge(info, data) {
  return el(
    "span",
    { class: `state tone-${info.tone}`, title: info.hint, data },
    icon(info.icon, 14),
    el("span", { text: info.name }),
  );
}

export const stateMark = (state) => stateBadge(runStateInfo(state), { testid: "run-state", state });
export const workerMark = (state) => stateBadge(workerStateInfo(state), { testid: "worker-state", state });

/** Where an alert stands; `info` may carry other words than the state's own. */
export const alertMark = (info, state) => stateBadge(info, { testid: "alert-state", state });
/** How a channel, or a message to one, stands. */
export const channelMark = (info) => stateBadge(info, { testid: "channel-state" });
export const keyMark = (info) => stateBadge(info, { testid: "key-state", state: info.id });
/** What came of something that somebody did. */
export const outcomeMark = (info) => stateBadge(info, { testid: "outcome" });

/** Open alerts as counts per severity; nothing but a dash when there are none. */
export function alertCounts(counts) {
  const shown = ["critical", "warning", "info"].filter((severity) => (counts?.[severity] ?? 0) > 0);
  if (shown.length === 0) return el("span", { class: "faint", text: "none" });
  return el(
    "span",
    { class: "alert-counts" },
    shown.map((severity) => {
      const info = severityInfo(severity);
      const label = plural(counts[severity], `open ${info.name.toLowerCase()} alert`);
      return el(
        "span",
        { class: `count severity-${severity}`, title: label },
        icon(info.icon, 14),
        el("span", { text: String(counts[severity]), "aria-hidden": "true" }),
        el("span", { class: "visually-hidden", text: label }),
      );
    }),
  );
}

/** Retrieval skill over the steps, with the chance line at 0 and the newest point marked. */
export function sparkline(line, { width = 132, height = 34 } = {}) {
  const box = { width, height, low: -0.1, high: 1 };
  const points = sparklinePoints(line ?? { steps: [], values: [] }, box);
  if (points.length === 0) return el("span", { class: "faint", text: "no scores yet" });
  const newest = line.values[line.values.length - 1];
  const chance = sparklineY(0, box);
  const [x, y] = points[points.length - 1];
  const path = points
    .map(([px, py], i) => `${i === 0 ? "M" : "L"}${px.toFixed(1)} ${py.toFixed(1)}`)
    .join("");
  const label =
    `Retrieval skill from step ${formatStep(line.steps[0])} to ` +
    `${formatStep(line.steps[line.steps.length - 1])}, newest ${formatNumber(newest)}; 0 is chance.`;
  return svg(
    "svg",
    {
      class: "sparkline",
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label": label,
    },
    svg("line", { class: "sparkline-chance", x1: 0, x2: width, y1: chance, y2: chance }),
    svg("path", { class: "sparkline-line", d: path }),
    svg("circle", { class: "sparkline-end", cx: x, cy: y, r: 2.75 }),
  );
}

let infoCount = 0;

/**
 * A small button whose explanation shows on hover and on focus, and is read with it.
 * @param {string} title
 * @param {Record<string, any>} info
 */
export function infoButton(title, { explanation, formula, unit }) {
  infoCount += 1;
  const id = `info-${infoCount}`;
  const root = el(
    "span",
    { class: "info" },
    el(
      "button",
      { class: "info-button", type: "button", "aria-label": `About ${title}`, "aria-describedby": id },
      icon("info", 15),
    ),
    el(
      "span",
      { class: "info-bubble", role: "tooltip", id },
      el("span", { class: "info-text", text: explanation }),
      formula ? el("code", { class: "info-formula", text: formula }) : null,
      unit ? el("span", { class: "info-unit", text: `Unit: ${unit}` }) : null,
    ),
  );
  // Escape puts it away without moving pointer or focus; leaving makes it ready again.
  const dismiss = (dismissed) => () => root.classList.toggle("info-dismissed", dismissed);
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape") dismiss(true)();
  });
  root.addEventListener("pointerleave", dismiss(false));
  root.addEventListener("focusout", dismiss(false));
  return root;
}

export function notice(kind, ...children) {
  return el("div", { class: `notice notice-${kind}`, role: "alert" }, ...children);
}

/** A sentence of the server: what it puts between backticks is set as code. */
export function prose(text, props = {}) {
  return el(
    "span",
    props,
    codeParts(text).map((part) => el(part.isCode ? "code" : "span", { text: part.text })),
  );
}

/** A code sample with a button that copies it. */
export function codeSample(code, label) {
  const button = el(
    "button",
    { class: "button button-small", type: "button" },
    icon("copy", 14),
    el("span", { text: "Copy" }),
  );
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code);
      button.lastChild.textContent = "Copied";
    } catch {
      button.lastChild.textContent = "Select and copy by hand";
    }
  });
  return el(
    "figure",
    { class: "code-sample" },
    el("figcaption", {}, el("span", { text: label }), button),
    el("pre", { tabindex: "0" }, el("code", { text: code })),
  );
}

/** A horizontal share bar with its text beside it. */
export function shareBar(share, colourClass = "") {
  const bar = el("span", { class: `share-bar ${colourClass}`, "aria-hidden": "true" }, el("span"));
  bar.firstChild.style.width = `${Math.round(Math.min(1, Math.max(0, share)) * 100)}%`;
  return bar;
}

/** What may be wider than a phone: it scrolls by itself, also by keyboard, and says what it holds. */
export function scrollRegion(label) {
  return el("div", { class: "table-scroll", tabindex: "0", role: "region", "aria-label": label });
}
