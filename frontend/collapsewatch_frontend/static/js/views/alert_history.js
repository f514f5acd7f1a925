/** What happened to an alert, and who did it. */

import { history } from "../alert_detail.js";
import { formatAge } from "../format.js";
import { formatMoment } from "../inbox.js";
import { severityBadge } from "./components.js";
import { el, rerender } from "./dom.js";

export function historyPart() {
  const list = el("ol", { class: "history", data: { testid: "alert-history" } });
  const root = el(
    "section",
    { "aria-label": "History" },
    el("h2", { class: "section-title", text: "History" }),
    list,
  );
  let shown = [];
  const show = () => {
    const now = Date.now();
    rerender(list, JSON.stringify(shown.map((entry) => [entry, formatAge(entry.at, now)])), () =>
      shown.length === 0
        ? [
            el("li", {
              class: "faint",
              text: "Nothing was told of it: it was over before anybody could hear of it.",
            }),
          ]
        : shown.map((entry) => historyRow(entry, now)),
    );
  };
  return {
    root,
    tick: show,
    update(detail) {
      shown = history(detail);
      show();
    },
  };
}

function historyRow(entry, now) {
  const until = entry.until === null ? "" : ` until ${formatMoment(entry.until, now)}`;
  const who = entry.who === "" ? "" : ` by ${entry.who}`;
  return el(
    "li",
    {},
    el("time", { class: "faint", datetime: entry.at, title: entry.at, text: formatAge(entry.at, now) }),
    el("span", {}, el("strong", { text: entry.what }), el("span", { text: `${who}${until}` })),
    entry.severity === null ? null : severityBadge(entry.severity),
    entry.note === "" ? null : el("p", { class: "history-note", text: entry.note }),
  );
}
