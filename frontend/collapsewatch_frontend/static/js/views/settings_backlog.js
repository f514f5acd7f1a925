/** Runs that have something on a trainer's disk, lost something, or had batches put off. */

import { droppedReasons, spoolWords } from "../backlog.js";
import { formatStep } from "../format.js";
import { runHref } from "../routes.js";
import { sortBacklog } from "../service.js";
import { stateMark } from "./components.js";
import { el } from "./dom.js";
import { icon } from "./icons.js";
import { cardTable, textCell } from "./settings_table.js";

const COLUMNS = [
  { name: "Run", cell: runCell },
  { name: "State", cell: ({ state }) => [state, () => [stateMark(state)]] },
  { name: "Put off", numeric: true, cell: ({ num_deferred: count }) => textCell(formatStep(count ?? 0)) },
  { name: "Writers", numeric: true, cell: ({ num_writers: count }) => textCell(formatStep(count)) },
  { name: "On the trainer’s disk", wide: true, cell: (run) => textCell(spoolWords(run) || "nothing") },
  { name: "Dropped", wide: true, cell: droppedCell },
];

export function backlogTable() {
  const table = cardTable({
    caption: "Runs with something waiting or lost",
    testid: "backlog-runs",
    keyOf: (run) => run.run_id,
    columns: COLUMNS,
  });
  const calm = el(
    "p",
    { class: "calm", data: { testid: "no-backlog" } },
    icon("resolved"),
    el("span", { text: "Everything that was logged has arrived, and nothing was lost." }),
  );
  const root = el(
    "section",
    { "aria-label": "Runs with something waiting or lost" },
    el("h2", { class: "section-title", text: "Waiting on trainers, and lost" }),
    calm,
    table.root,
  );
  return {
    root,
    update({ runs_with_backlog: runs }) {
      calm.hidden = runs.length > 0;
      table.root.hidden = runs.length === 0;
      table.update(sortBacklog(runs));
    },
  };
}

function runCell({ run_id: runId, name, project }) {
  return [
    `${name} ${project}`,
    () => [
      el("a", { class: "run-link card-title", href: runHref(runId), data: { focusKey: runId }, text: name }),
      el("span", { class: "faint", text: project }),
    ],
  ];
}

function droppedCell({ dropped }) {
  const reasons = droppedReasons(dropped);
  if (reasons.length === 0) return ["", () => [el("span", { text: "nothing" })]];
  return [
    JSON.stringify(reasons),
    () =>
      reasons.map(({ what, why }) =>
        el(
          "span",
          { class: "dropped" },
          el("strong", { class: "attention", text: what }),
          el("span", { class: "faint", text: ` ${why}` }),
        ),
      ),
  ];
}
