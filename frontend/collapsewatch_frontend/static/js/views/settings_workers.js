/** Who scores: one row per worker, the lost ones last. */

import { formatAge, formatStep } from "../format.js";
import { runHref } from "../routes.js";
import { sortWorkers } from "../service.js";
import { codeSample, workerMark } from "./components.js";
import { el, rerender } from "./dom.js";
import { cardTable, textCell } from "./settings_table.js";

const COLUMNS = [
  { name: "Worker", cell: nameCell },
  { name: "State", cell: ({ state }) => [state, () => [workerMark(state)]] },
  { name: "Last seen", cell: ({ last_seen_at: at }) => textCell(formatAge(at, Date.now())) },
  { name: "Device", cell: ({ device }) => textCell(device) },
  { name: "Working on", cell: jobCell, wide: true },
  { name: "Done", numeric: true, cell: ({ num_done: done }) => textCell(formatStep(done)) },
  { name: "Failed", numeric: true, cell: failedCell },
];

export function workersTable() {
  const table = cardTable({
    caption: "Workers",
    testid: "workers",
    keyOf: (worker) => `${worker.host} ${worker.name}`,
    columns: COLUMNS,
  });
  const empty = el("div");
  const root = el(
    "section",
    { "aria-label": "Workers" },
    el("h2", { class: "section-title", text: "Workers" }),
    table.root,
    empty,
  );
  return {
    root,
    update({ workers }) {
      table.root.hidden = workers.length === 0;
      table.update(sortWorkers(workers));
      rerender(empty, String(workers.length === 0), () => (workers.length === 0 ? noWorker() : []));
    },
  };
}

function nameCell({ name, host, version }) {
  return [
    `${name} ${host} ${version}`,
    () => [
      el("strong", { class: "card-title", text: name }),
      el("span", { class: "faint", text: `${host} · ${version}` }),
    ],
  ];
}

function jobCell({ job }) {
  if (!job) return ["", () => [el("span", { class: "faint", text: "nothing" })]];
  return [
    JSON.stringify(job),
    () => [
      el("a", {
        class: "cell-link",
        href: runHref(job.run_id),
        data: { focusKey: job.run_id },
        text: job.run_name,
      }),
      el("span", { class: "faint", text: ` step ${formatStep(job.step)}` }),
    ],
  ];
}

function failedCell({ num_failed: failed }) {
  return [
    String(failed),
    () => [el("span", { class: failed > 0 ? "attention" : null, text: formatStep(failed) })],
  ];
}

function noWorker() {
  return [
    el(
      "div",
      { class: "card empty-card", data: { testid: "no-workers" } },
      el("p", {
        text: "No worker has been here yet. Batches are kept and wait; they are scored as soon as one starts.",
      }),
      codeSample(
        `COLLAPSEWATCH_WORKER_KEY=… collapsewatch worker --server ${window.location.origin}`,
        "On a machine with a GPU, or on this one",
      ),
    ),
  ];
}
