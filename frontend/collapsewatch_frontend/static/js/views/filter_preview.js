/** What each reward-variance rule would keep of a step's prompt groups. */

import { scrollRegion, shareBar } from "./components.js";
import { el, rerender } from "./dom.js";

export function filterPreview() {
  const table = scrollRegion("Filter preview");
  const root = el(
    "section",
    { class: "card", data: { testid: "filter-preview" } },
    el("header", { class: "figure-head" }, el("h3", { class: "figure-title", text: "Filter preview" })),
    el("p", {
      class: "card-note",
      text: "What each reward-variance rule would keep of this batch’s prompt groups.",
    }),
    table,
  );
  return {
    root,
    update(previews) {
      root.hidden = previews.length === 0;
      rerender(table, JSON.stringify(previews), () => [filterTable(previews)]);
    },
  };
}

function filterTable(previews) {
  const head = ["Rule", "Keeps"].map((text) => el("th", { scope: "col", text }));
  return el(
    "table",
    { class: "data" },
    el("thead", {}, el("tr", {}, head)),
    el("tbody", {}, previews.map(filterRow)),
  );
}

function filterRow({ rule, kept_group_ids: ids, num_groups: numGroups }) {
  return el(
    "tr",
    {},
    el("th", { scope: "row", class: "mono", text: rule }),
    el(
      "td",
      { class: "cell-kept" },
      el(
        "span",
        { class: "bar-line" },
        shareBar(ids.length / Math.max(1, numGroups)),
        el("span", { class: "numeric", text: `${ids.length} of ${numGroups}` }),
      ),
    ),
  );
}
