/** Head of the list of runs: what is shown, and in which order. Each choice is an address. */

import { urgentCount } from "../alerts.js";
import { formatStep, plural } from "../format.js";
import { runsHref } from "../routes.js";
import { RUN_STATES, stateCounts } from "../run_states.js";
import { groupChoices, SORTS, tagCounts } from "../runs_view.js";
import { el, rerender, setAttribute, setText } from "./dom.js";
import { choice, setOptions } from "./forms.js";

const TYPING_MS = 200;

/** `change(part)` goes to another view, `retype(search)` follows what is typed. */
export function runsHead({ change, retype }) {
  const pick = (name, label) =>
    choice([{ id: "", name: label }], {
      "aria-label": label,
      data: { testid: name === "project" ? "project-picker" : `runs-${name}` },
      on: { change: (event) => change({ [name]: event.target.value }) },
    });
  const controls = {
    project: pick("project", "Project"),
    state: pick("state", "State"),
    tag: pick("tag", "Tag"),
    group: pick("group", "Group by"),
    sort: pick("sort", "Sort by"),
  };
  const search = searchBox(retype);
  const tabs = el("nav", { class: "tabs", "aria-label": "Which runs" });
  const summary = el("p", { class: "page-sub", role: "status", data: { testid: "runs-summary" } });
  const root = el(
    "div",
    { class: "runs-head" },
    el("div", { class: "page-head" }, el("div", {}, el("h1", { text: "Runs" }), summary), controls.project),
    tabs,
    el(
      "div",
      { class: "controls runs-filters" },
      search.input,
      controls.state,
      controls.tag,
      controls.group,
      el("span", { class: "runs-sort" }, controls.sort),
    ),
  );
  return {
    root,
    stop: search.stop,
    update(state) {
      showChoices(controls, state);
      search.show(state.view.search);
      showTabs(tabs, state);
    },
    tell: (told) => setText(summary, summaryWords(told)),
  };
}

function searchBox(retype) {
  let timer = null;
  const input = el("input", {
    id: "search",
    type: "search",
    placeholder: "Search names, tags, notes",
    "aria-label": "Search runs",
    autocomplete: "off",
    maxlength: 200,
    data: { testid: "run-search" },
    on: {
      input: () => {
        clearTimeout(timer);
        timer = setTimeout(() => retype(input.value), TYPING_MS);
      },
    },
  });
  return {
    input,
    stop: () => clearTimeout(timer),
    show(text) {
      if (document.activeElement !== input) input.value = text;
    },
  };
}

function showChoices(controls, { view, projects, rows, configKeys }) {
  show(controls.project, view.project, [
    { id: "", name: "All projects" },
    ...projects
      .filter(({ name, num_runs: count }) => count > 0 || name === view.project)
      .map(({ name, num_runs: count }) => ({ id: name, name: `${name} (${formatStep(count)})` })),
  ]);
  show(controls.state, view.state, [
    { id: "", name: "Every state" },
    ...Object.entries(RUN_STATES).map(([id, { name }]) => ({ id, name })),
  ]);
  show(controls.tag, view.tag, [
    { id: "", name: "Every tag" },
    ...tagCounts(rows).map(({ tag, count }) => ({ id: tag, name: `${tag} (${formatStep(count)})` })),
  ]);
  show(controls.group, view.group, groupChoices(configKeys));
  show(controls.sort, view.sort, [
    { id: "", name: "Newest first" },
    ...Object.entries(SORTS).map(([id, { name, first }]) => ({
      id: `${first}${id}`,
      name: `By ${name.toLowerCase()}`,
    })),
  ]);
}

/** Touches the list of choices only when it differs, so that an open one stays open. */
function show(node, value, choices) {
  const signature = JSON.stringify(choices);
  if (node.dataset.choices !== signature) {
    node.dataset.choices = signature;
    node.value = value;
    setOptions(node, choices);
  }
  if (node.value === value) return;
  if (!choices.some(({ id }) => id === value)) node.append(el("option", { value, text: value }));
  node.value = value;
}

function showTabs(tabs, { view, counts }) {
  rerender(tabs, JSON.stringify([view, counts]), () =>
    [
      { archived: false, name: "Active", count: counts.active },
      { archived: true, name: "Archived", count: counts.archived },
    ].map(({ archived, name, count }) => {
      const tab = el(
        "a",
        {
          class: "tab",
          href: runsHref({ ...view, archived }),
          data: { testid: `tab-${name.toLowerCase()}`, focusKey: name },
        },
        el("span", { text: name }),
        el("span", { class: "tab-count", text: formatStep(count) }),
      );
      setAttribute(tab, "aria-current", archived === view.archived ? "true" : null);
      return tab;
    }),
  );
}

/** How many there are and how they do; a list that is cut says so. */
function summaryWords({ view, shown, rows, counts }) {
  if (rows.length === 0) return "";
  const numUrgent = rows.reduce((sum, run) => sum + urgentCount(run.open_alerts), 0);
  const words = [plural(shown.length, "run"), ...stateCounts(rows), plural(numUrgent, "open alert")];
  const whole = view.archived ? counts.archived : counts.active;
  if (rows.length < whole) {
    words.push(
      `the newest ${formatStep(rows.length)} of ${formatStep(whole)}; choose a project for older ones`,
    );
  }
  return words.join(" · ");
}
