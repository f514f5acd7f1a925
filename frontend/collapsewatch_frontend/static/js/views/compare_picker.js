/** Picks the runs of a comparison: to start one, and to add to one. */

import { MAX_RUNS } from "../compare.js";
import { formatStep, plural } from "../format.js";
import { regimeBadge, sparkline } from "./components.js";
import { el, rerender, setText } from "./dom.js";

const MAX_LISTED = 60;

/**
 * `load()` brings the runs, `picked` are the ids that are compared now, `onPick(runIds)` takes the new list.
 * `show()` loads and opens it.
 */
export function runPicker({ load, picked, onPick, isStart = false }) {
  const state = { runs: null, chosen: new Set(picked), problem: "" };
  const search = el("input", {
    type: "search",
    placeholder: "Search by name, project, tag or id",
    "aria-label": "Search runs to compare",
    autocomplete: "off",
    data: { testid: "picker-search" },
    on: { input: () => show() },
  });
  const list = el("ul", { class: "picker-list", data: { testid: "picker-list" } });
  const status = el("p", { class: "faint", role: "status" });
  const go = el("button", {
    class: "button button-primary",
    type: "button",
    data: { testid: "picker-go" },
    on: { click: () => onPick([...state.chosen]) },
  });
  const root = el(
    "section",
    {
      class: "card compare-picker",
      hidden: !isStart,
      "aria-label": "Pick runs",
      data: { testid: "compare-picker" },
    },
    el("div", { class: "picker-head" }, search, status, go),
    list,
  );

  function show() {
    const runs = found(state.runs ?? [], search.value);
    const listed = runs.slice(0, MAX_LISTED);
    setText(status, statusWords(state, runs.length, listed.length));
    go.disabled = state.chosen.size < (isStart ? 2 : 1);
    setText(go, state.chosen.size === 0 ? "Compare" : `Compare ${plural(state.chosen.size, "run")}`);
    const full = state.chosen.size >= MAX_RUNS;
    rerender(
      list,
      JSON.stringify([listed.map((run) => [run.run_id, run.name]), [...state.chosen], full]),
      () => listed.map((run) => item(run, { state, full, show })),
    );
  }

  async function open() {
    root.hidden = false;
    show();
    if (!isStart) search.focus();
    try {
      state.runs = await load();
      state.problem = "";
    } catch (error) {
      state.problem = `The runs could not be loaded: ${error.message}.`;
    }
    show();
  }
  return {
    root,
    open,
    close: () => {
      root.hidden = true;
    },
    get isOpen() {
      return !root.hidden;
    },
  };
}

function item(run, { state, full, show }) {
  const box = el("input", {
    type: "checkbox",
    checked: state.chosen.has(run.run_id),
    disabled: full && !state.chosen.has(run.run_id),
    data: { focusKey: `pick ${run.run_id}`, testid: "picker-run", runId: run.run_id },
    on: {
      change: () => {
        if (box.checked) state.chosen.add(run.run_id);
        else state.chosen.delete(run.run_id);
        show();
      },
    },
  });
  return el(
    "li",
    {},
    el(
      "label",
      { class: "picker-run" },
      box,
      el("span", { class: "picker-name", text: run.name }),
      el("span", { class: "faint", text: run.project }),
      run.tags.map((tag) => el("span", { class: "tag", text: tag })),
      el(
        "span",
        { class: "picker-end" },
        regimeBadge(run.regime?.regime),
        sparkline(run.sparkline, { width: 96, height: 24 }),
      ),
    ),
  );
}

function found(runs, text) {
  const wanted = text.trim().toLowerCase();
  return runs.filter((run) =>
    [run.name, run.project, run.run_id, ...run.tags].some((part) => part.toLowerCase().includes(wanted)),
  );
}

function statusWords({ runs, chosen, problem }, numFound, numListed) {
  if (problem !== "") return problem;
  if (runs === null) return "Loading the runs …";
  if (runs.length === 0) return "There are no runs yet: the page of runs says how to start one.";
  if (numFound === 0) return "No run matches. Search for a part of its name, project or tag.";
  const listed =
    numListed < numFound
      ? `${formatStep(numListed)} of ${plural(numFound, "run")} listed`
      : plural(numFound, "run");
  return `${listed} · ${formatStep(chosen.size)} of at most ${MAX_RUNS} picked`;
}
