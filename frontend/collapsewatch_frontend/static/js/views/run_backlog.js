/** What of a run waits, was put off or was lost, with what that means. */

import { backlogLines } from "../backlog.js";
import { el, rerender } from "./dom.js";
import { icon } from "./icons.js";

export function backlogPart() {
  const list = el("ul", { class: "alerts" });
  const root = el(
    "section",
    { hidden: true, "aria-label": "Waiting and lost", data: { testid: "backlog" } },
    el("h2", { class: "section-title", text: "Waiting and lost" }),
    list,
  );
  return {
    root,
    update({ summary }) {
      const lines = backlogLines(summary);
      root.hidden = lines.length === 0;
      rerender(list, JSON.stringify(lines), () => lines.map(lineCard));
    },
  };
}

function lineCard({ id, tone, title, text }) {
  return el(
    "li",
    { class: `card alert severity-${tone}`, data: { testid: `backlog-${id}` } },
    el("div", { class: "alert-head" }, icon(tone), el("strong", { text: title })),
    el("p", { class: "alert-message", text }),
  );
}
