/** What can be taken away from a page: a report, its numbers. */

import { exportHref } from "../api.js";
import { el, setAttribute } from "./dom.js";
import { icon } from "./icons.js";

const FILES = [
  { kind: "report.html", icon: "picture", text: "Report: one HTML file, opens offline", testid: "export-report" },
  { kind: "series.csv", icon: "table", text: "All numbers as CSV", testid: "export-csv" },
  { kind: "series.parquet", icon: "table", text: "All numbers as Parquet", testid: "export-parquet" },
];

/** Builds the menu; `update(runIds, scope)` says of what. Links, so that the browser saves what comes. */
export function exportMenu() {
  const links = FILES.map(({ kind, icon: name, text, testid }) => ({
    kind,
    node: el(
      "a",
      { class: "menu-item", download: "", data: { testid }, on: { click: () => close() } },
      icon(name, 14),
      el("span", { text }),
    ),
  }));
  const summary = el("summary", { class: "button" }, icon("download", 15), el("span", { text: "Export" }));
  const root = el(
    "details",
    { class: "export-menu", data: { testid: "export" } },
    summary,
    el("div", { class: "menu" }, links.map((link) => link.node)),
  );
  const onOutside = (event) => {
    if (!root.contains(event.target)) close();
  };
  function close() {
    root.open = false;
  }
  root.addEventListener("toggle", () => {
    if (root.open) document.addEventListener("pointerdown", onOutside);
    else document.removeEventListener("pointerdown", onOutside);
  });
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !root.open) return;
    close();
    summary.focus();
  });
  return {
    root,
    update(runIds, scope) {
      root.hidden = runIds.length === 0;
      for (const { kind, node } of links) {
        // The numbers are those of all scopes; a report shows one.
        const choice = kind === "report.html" ? { run: runIds, scope } : { run: runIds };
        setAttribute(node, "href", exportHref(kind, choice));
      }
    },
    destroy: () => document.removeEventListener("pointerdown", onOutside),
  };
}
