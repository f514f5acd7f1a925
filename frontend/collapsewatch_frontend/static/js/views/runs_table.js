/** The lines of the list of runs. Only those in sight, and some around them, are in the page. */

import { may } from "../access.js";
import { nextSort, sortDirection, SORTS } from "../runs_view.js";
import { SparklineStore } from "../sparkline_store.js";
import { openRunDialog } from "./run_dialogs.js";
import { groupRow, NUM_COLUMNS, runRow } from "./run_row.js";
import { el, KeyedList, rerender, setAttribute } from "./dom.js";
import { LineWindow, spacer } from "./runs_window.js";

const COLUMNS = ["name", "regime", "skill", "accuracy", "reward", "step", "updated", "alerts"];
const NUMERIC = new Set(["accuracy", "reward", "step", "updated"]);
const KEYS = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };

/**
 * `picked` is the set of ticked run ids, `change(part)` goes to another view, `onPick` draws the page anew,
 * `onDone(words)` tells what was done, `loadSparklines(runIds)` answers the lines of these runs.
 */
export function runsTable({ picked, change, onPick, onDone, loadSparklines }) {
  const parts = tableParts();
  let shown = { view: { project: "", sort: "" }, lines: [] };
  const sparklines = new SparklineStore(loadSparklines, () => draw());
  const actions = {
    onPick(run, isPicked) {
      if (isPicked) picked.add(run.run_id);
      else picked.delete(run.run_id);
      onPick();
    },
    onTag: (tag) => change({ tag }),
    onEdit: (run) => openRunDialog(run, { onDone }),
  };
  const rows = new KeyedList(parts.body, {
    keyOf: ({ line }) => line.key,
    create: ({ line }) => adapted(line.kind === "group" ? groupRow() : runRow(line.run, actions)),
  });
  const draw = () => {
    const { first, end } = sight.settle();
    const lines = shown.lines.slice(first, end);
    const runs = lines.flatMap((line) => (line.kind === "run" ? [line.run] : []));
    keepFocus(parts.root, () => rows.update(lines.map((line, i) => item(line, first + i))));
    sparklines.want(runs);
  };
  const item = (line, index) => ({
    line,
    index,
    isPicked: picked.has(line.key),
    sparkline: sparklines.of(line.key),
    withProject: shown.view.project === "",
  });
  const sight = new LineWindow({ table: parts.root, above: parts.above, below: parts.below }, draw);
  const keys = lineKeys(parts, { lines: () => shown.lines, sight, draw, actions, picked });
  parts.root.addEventListener("keydown", keys.onKey);
  parts.root.addEventListener("focusin", keys.onFocus);
  return {
    root: parts.root,
    update({ view, lines }) {
      shown = { view, lines };
      parts.root.hidden = lines.length === 0;
      setAttribute(parts.root, "aria-rowcount", lines.length + 1);
      rerender(parts.head, view.sort, () => [headRow(view.sort, change)]);
      sight.setLines(lines);
      draw();
    },
    tick: draw,
    destroy() {
      sight.destroy();
      sparklines.stop();
    },
  };
}

/** What had the focus may be scrolled away with its line: the table has it then, and the keys go on. */
function keepFocus(root, work) {
  const hadFocus = root.contains(document.activeElement);
  work();
  if (hadFocus && !root.contains(document.activeElement)) root.focus({ preventScroll: true });
}

/** A row as `KeyedList` wants it: it is updated with what the list knows of its line. */
function adapted(row) {
  return {
    root: row.root,
    update({ line, index, ...known }) {
      // The head is the first row.
      setAttribute(row.root, "aria-rowindex", index + 2);
      row.update(line.kind === "group" ? line : { run: line.run, ...known });
    },
  };
}

function tableParts() {
  const [above, below] = [spacer(NUM_COLUMNS), spacer(NUM_COLUMNS)];
  const head = el("thead");
  const body = el("tbody", { data: { testid: "run-list" } });
  const root = el(
    "table",
    { class: "runs", tabindex: "-1", hidden: true, data: { testid: "runs-table" } },
    el("caption", { class: "visually-hidden", text: "Runs. Keys: arrows move, x selects, e edits." }),
    head,
    above.body,
    body,
    below.body,
  );
  return { root, head, body, above, below };
}

function headRow(sort, change) {
  return el(
    "tr",
    { "aria-rowindex": 1 },
    el("td", { class: "cell-pick" }),
    COLUMNS.map((column) => sortHead(column, sort, change)),
    el("td", { class: "cell-edit" }),
  );
}

const ARROWS = { ascending: "↑", descending: "↓" };

function sortHead(column, sort, change) {
  const direction = sortDirection(sort, column);
  const classes = `head-${column}${NUMERIC.has(column) ? " numeric" : ""}`;
  return el(
    "th",
    { scope: "col", class: classes, "aria-sort": direction },
    el(
      "button",
      {
        class: "head-button",
        type: "button",
        data: { testid: `sort-${column}`, focusKey: column },
        on: { click: () => change({ sort: nextSort(sort, column) }) },
      },
      el("span", { text: SORTS[column].name }),
      el("span", { class: "sort-arrow", "aria-hidden": "true", text: ARROWS[direction] ?? "" }),
    ),
  );
}

/** Up and down from run to run, also to those that are not in the page yet; x ticks, e edits. */
function lineKeys(parts, { lines, sight, draw, actions, picked }) {
  let at = null;
  const goTo = (index) => {
    at = lines()[index].key;
    sight.bringIntoSight(index);
    draw();
    const row = parts.body.querySelector(`[data-run-id="${CSS.escape(at)}"]`);
    row?.querySelector(".run-link").focus({ preventScroll: true });
  };
  return {
    onFocus: (event) => (at = event.target.closest("tr")?.dataset.runId ?? at),
    onKey(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const index = lines().findIndex((line) => line.key === at);
      const { run } = lines()[index] ?? {};
      if (Object.hasOwn(KEYS, event.key)) {
        const next = nextRun(lines(), index, KEYS[event.key]);
        if (next === -1) return;
        goTo(next);
      } else if (run === undefined) return;
      else if (event.key === "x") actions.onPick(run, !picked.has(run.run_id));
      else if (event.key === "e" && may("run.edit", run.project)) actions.onEdit(run);
      else return;
      event.preventDefault();
    },
  };
}

function nextRun(lines, at, step) {
  for (let i = at + step; i >= 0 && i < lines.length; i += step) if (lines[i].kind === "run") return i;
  return -1;
}
