/** The filters of the inbox. Each choice is an address, so that it can be kept and sent. */

import { SEVERITIES } from "../alerts.js";
import { humanise } from "../format.js";
import { choiceCounts } from "../inbox.js";
import { alertsHref } from "../routes.js";
import { choice, setOptions } from "./forms.js";
import { el, rerender, setAttribute } from "./dom.js";

const TYPING_MS = 300;

/** `onChange(filters)` is called with the new filters; `update` shows those of the address and the counts. */
export function inboxFilters({ filters, onChange }) {
  let current = filters;
  const change = (part) => onChange({ ...current, ...part });
  const tabs = el("nav", { class: "tabs", "aria-label": "State" });
  const pick = (name, all) =>
    choice([{ id: "", name: all }], {
      "aria-label": humanise(name),
      data: { testid: `filter-${name}` },
      on: { change: (event) => change({ [name]: event.target.value }) },
    });
  const severity = pick("severity", "Every severity");
  const project = pick("project", "All projects");
  const rule = pick("rule", "All rules");
  let timer = null;
  const text = el("input", {
    type: "search",
    placeholder: "Search titles and runs",
    "aria-label": "Search alerts",
    autocomplete: "off",
    maxlength: 200,
    data: { testid: "filter-text" },
    on: {
      input: () => {
        clearTimeout(timer);
        timer = setTimeout(() => change({ text: text.value }), TYPING_MS);
      },
    },
  });
  const run = el("span");
  setOptions(severity, [
    { id: "", name: "Every severity" },
    ...Object.entries(SEVERITIES).map(([id, { name }]) => ({ id, name })),
  ]);
  const root = el(
    "div",
    { class: "inbox-filters" },
    tabs,
    el("div", { class: "controls" }, severity, project, rule, text, run),
  );
  return {
    root,
    stop: () => clearTimeout(timer),
    update(latest, { counts, rules, projects }) {
      current = latest;
      rerender(tabs, JSON.stringify([counts, latest]), () =>
        choiceCounts(counts).map(({ id, name, count }) => stateTab({ id, name, count }, latest)),
      );
      severity.value = latest.severity;
      showChoice(
        project,
        latest.project,
        "All projects",
        projects.map((name) => ({ id: name, name })),
      );
      showChoice(rule, latest.rule, "All rules", rules);
      if (document.activeElement !== text) text.value = latest.text;
      rerender(run, latest.run, () => (latest.run === "" ? [] : [runChip(latest)]));
    },
  };
}

function stateTab({ id, name, count }, filters) {
  const tab = el(
    "a",
    {
      class: "tab",
      href: alertsHref({ ...filters, status: id }),
      data: { testid: `tab-${id || "unresolved"}`, focusKey: id },
    },
    el("span", { text: name }),
    el("span", { class: "tab-count", text: String(count) }),
  );
  setAttribute(tab, "aria-current", id === filters.status ? "true" : null);
  return tab;
}

/** `choices` are `[{id, name}]`; one that is asked for and not among them is added, so that it is seen. */
function showChoice(node, value, all, choices) {
  const isThere = value === "" || choices.some(({ id }) => id === value);
  const shown = isThere ? choices : [...choices, { id: value, name: value }];
  const signature = JSON.stringify(shown);
  if (node.dataset.choices !== signature) {
    node.dataset.choices = signature;
    setOptions(node, [{ id: "", name: all }, ...shown]);
  }
  node.value = value;
}

function runChip(filters) {
  return el(
    "a",
    {
      class: "button button-small",
      href: alertsHref({ ...filters, run: "" }),
      title: "Show the alerts of all runs",
    },
    el("span", { text: `Run ${filters.run} ×` }),
  );
}
