/** What may be done with the runs that are ticked; with none it only offers to tick all. */

import { mayInAll } from "../access.js";
import { plural } from "../format.js";
import { compareHref } from "../routes.js";
import { el, rerender, setText } from "./dom.js";
import { button } from "./forms.js";
import { icon } from "./icons.js";
import { archiveRuns, askToDelete } from "./run_dialogs.js";

const MOST_COMPARED = 20;

/** `picked` is the set of ticked run ids; `show` draws the page anew, `onDone(words)` tells what was done. */
export function runsBar({ picked, show, onDone }) {
  let shown = [];
  const all = el("input", { type: "checkbox", data: { testid: "pick-all" } });
  const words = el("span");
  const actions = el("span", { class: "runs-actions" });
  all.addEventListener("change", () => {
    picked.clear();
    if (all.checked) for (const run of shown) picked.add(run.run_id);
    show();
  });
  const root = el(
    "div",
    { class: "runs-bar", data: { testid: "pick-bar" } },
    el("label", { class: "check" }, all, words),
    actions,
  );
  root.hidden = true;
  const clear = () => picked.clear();
  return {
    root,
    update({ view, shown: latest }) {
      shown = latest;
      const runs = latest.filter((run) => picked.has(run.run_id));
      root.hidden = latest.length === 0;
      all.checked = runs.length > 0 && runs.length === latest.length;
      all.indeterminate = runs.length > 0 && !all.checked;
      setText(words, runs.length === 0 ? "Select all" : `${plural(runs.length, "run")} selected`);
      const signature = JSON.stringify([view.archived, runs.map((run) => [run.run_id, run.name, run.state])]);
      rerender(actions, signature, () => buttons(runs, view, { onDone, clear }));
    },
  };
}

function buttons(runs, view, { onDone, clear }) {
  if (runs.length === 0) return [];
  const done = (text) => {
    clear();
    onDone(text);
  };
  const projects = runs.map((run) => run.project);
  return [
    compareLink(runs),
    mayInAll("run.edit", projects) ? archiveButton(runs, view, { done, onDone }) : null,
    mayInAll("run.delete", projects) ? deleteButton(runs, done) : null,
  ];
}

const archiveButton = (runs, view, { done, onDone }) =>
  button(view.archived ? "Restore" : "Archive", {
    small: true,
    title: view.archived ? "Back to the list." : "Out of the list; nothing of it is lost.",
    data: { testid: "archive-runs", focusKey: "archive" },
    on: { click: () => archiveRuns(runs, !view.archived).then(done, (error) => onDone(error.message)) },
  });

const deleteButton = (runs, done) =>
  button("Delete…", {
    small: true,
    data: { testid: "delete-runs", focusKey: "delete" },
    on: { click: () => askToDelete(runs, { onDone: done }) },
  });

function compareLink(runs) {
  if (runs.length < 2) return null;
  const props = { class: "button button-small", data: { testid: "compare-button", focusKey: "compare" } };
  if (runs.length > MOST_COMPARED) {
    return el("span", { class: "faint", text: `At most ${MOST_COMPARED} runs can be compared.` });
  }
  return el(
    "a",
    { ...props, href: compareHref(runs.map((run) => run.run_id)) },
    icon("compare"),
    el("span", { text: `Compare ${runs.length} runs` }),
  );
}
