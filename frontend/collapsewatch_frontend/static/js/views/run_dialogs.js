/** Asks for what people say of a run, and before one is deleted. */

import { may } from "../access.js";
import { changeRun, deleteRun, exportHref } from "../api.js";
import { MAX_RUNS } from "../compare.js";
import { fieldErrors } from "../alert_rules.js";
import { plural } from "../format.js";
import { tagsOf } from "../runs_view.js";
import { el } from "./dom.js";
import { button, fieldSet, openDialog } from "./forms.js";

const MOST_NAMED = 5;
const LOSS =
  "Rollouts, scores, metrics and alerts are removed from the server. Nobody can bring them back. " +
  "To clear the list only, archive instead.";

/** Name, tags and notes of one run; `onDone(words)` is called with what was done. */
export function openRunDialog(run, { onDone }) {
  const set = aboutFields(run);
  openDialog({
    title: `About ${run.name}`,
    confirm: "Save",
    testid: "run-dialog",
    focus: set.first,
    children: [
      el("div", { class: "fields" }, set.nodes, set.rest),
      el("div", { class: "run-dialog-more" }, moreButtons(run, { onDone })),
    ],
    submit: async () => {
      set.showErrors({});
      const { name, tags, notes } = set.texts();
      try {
        await changeRun(run.run_id, { name: name.trim(), tags: tagsOf(tags), notes });
      } catch (error) {
        return set.showErrors(
          fieldErrors({ details: error.details ?? [], message: error.message }, ["name", "tags", "notes"]),
        );
      }
      onDone(`Saved ${name.trim()}.`);
      return true;
    },
  });
}

function aboutFields(run) {
  const input = (name, maxlength) =>
    el("input", { type: "text", maxlength, autocomplete: "off", data: { testid: `run-${name}` } });
  const controls = {
    name: input("name", 200),
    tags: input("tags", 2000),
    notes: el("textarea", { rows: 5, maxlength: 10_000, data: { testid: "run-notes" } }),
  };
  const set = fieldSet(controls, {
    values: { name: run.name, tags: run.tags.join(", "), notes: run.notes },
    labels: {
      name: ["Name", run.given_name === run.name ? "" : `Its trainer calls it ${run.given_name}.`],
      tags: ["Tags", "Parted by commas."],
      notes: ["Notes", ""],
    },
    wide: ["name", "tags", "notes"],
  });
  return { ...set, first: controls.name };
}

function moreButtons(run, { onDone }) {
  const close = (event) => event.target.closest("dialog").close();
  const archive = async (event) => {
    const dialog = event.target.closest("dialog");
    onDone(await archiveRuns([run], !run.archived).catch((error) => error.message));
    dialog.close();
  };
  return [
    button(run.archived ? "Restore" : "Archive", {
      small: true,
      data: { testid: "archive-run" },
      on: { click: archive },
    }),
    may("run.delete", run.project)
      ? button("Delete…", {
          small: true,
          data: { testid: "delete-run" },
          on: {
            click: (event) => {
              close(event);
              askToDelete([run], { onDone });
            },
          },
        })
      : null,
  ];
}

/** What was done, in words. Several are asked for one after another: a few dozen at most. */
export async function archiveRuns(runs, archived) {
  for (const run of runs) await changeRun(run.run_id, { archived });
  const what = runs.length === 1 ? runs[0].name : plural(runs.length, "run");
  return archived ? `Archived ${what}.` : `Restored ${what}.`;
}

/** Deletes the runs once somebody has said yes; `onDone(words)` is called even when some could not be. */
export function askToDelete(runs, { onDone }) {
  const what = runs.length === 1 ? runs[0].name : plural(runs.length, "run");
  openDialog({
    title: `Delete ${what}?`,
    confirm: "Delete for good",
    danger: true,
    testid: "delete-dialog",
    children: [
      el("p", {
        text: LOSS,
      }),
      runs.length > 1 ? namesOf(runs) : null,
      keepFirst(runs),
      runs.some((run) => run.state === "running")
        ? el("p", {
            class: "attention",
            text: "Training still goes on. What its trainer sends from now on is refused.",
          })
        : null,
    ],
    submit: async () => {
      for (const run of runs) await deleteRun(run.run_id).catch(unlessGone);
      onDone(`Deleted ${what}.`);
      return true;
    },
  });
}

/** What can be taken away before: as many runs at once as the server exports. */
function keepFirst(runs) {
  if (runs.length > MAX_RUNS) return null;
  const choice = { run: runs.map((run) => run.run_id) };
  const link = (kind, text) => el("a", { href: exportHref(kind, choice), download: "", text });
  return el(
    "p",
    { data: { testid: "keep-first" } },
    "Keep first what you may need: ",
    link("report.html", "a report"),
    ", or all numbers as ",
    link("series.csv", "CSV"),
    " or ",
    link("series.parquet", "Parquet"),
    ".",
  );
}

function namesOf(runs) {
  const rest = runs.length - MOST_NAMED;
  return el(
    "ul",
    { class: "run-names" },
    runs.slice(0, MOST_NAMED).map((run) => el("li", { text: `${run.name} (${run.project})` })),
    rest > 0 ? el("li", { class: "faint", text: `and ${plural(rest, "other run")}` }) : null,
  );
}

/** Somebody else was quicker, and it is as it should be. */
function unlessGone(error) {
  if (error.status !== 404) throw error;
}
