/** The table of where runs stand: its columns, its rows, their order. Pure. */

import { isNumber } from "./format.js";
import { BATCH, SCORED, TRAINER } from "./panels.js";

const COLUMNS = [
  { scope: SCORED, metric: "retrieval_skill", title: "Retrieval skill" },
  { scope: SCORED, metric: "retrieval_accuracy", title: "Retrieval accuracy" },
  { scope: SCORED, metric: "mi_seq", title: "Mutual information" },
  { scope: SCORED, metric: "conditional_entropy", title: "H(Z|X)" },
  { scope: BATCH, metric: "reward", title: "Reward" },
  { scope: TRAINER, metric: "success", title: "Success" },
  { scope: BATCH, metric: "success", title: "Success" },
  { scope: BATCH, metric: "reward_variance", title: "Reward variance" },
  { scope: BATCH, metric: "zero_variance_fraction", title: "Zero-variance groups", share: true },
  { scope: BATCH, metric: "valid_reasoning_rate", title: "Valid reasoning", share: true },
  { scope: BATCH, metric: "reasoning_length", title: "Reasoning length" },
];

const placeOf = (column, scope) => (column.scope === SCORED ? scope : column.scope);

/** The newest value of a column in a run or in a group of runs; undefined where it has none. */
export function endOf({ ends }, column, scope) {
  return ends[placeOf(column, scope)]?.[column.metric];
}

/** Columns of which any run has a value, those of added figures last; each with its `key`. */
export function endColumns(runs, scope, added = []) {
  const further = added.map(({ scope: place, metric, title }) => ({ scope: place, metric, title }));
  const columns = [...COLUMNS, ...further].map((column) => ({
    ...column,
    key: `${column.scope}:${column.metric}`,
  }));
  const seen = new Set();
  return columns.filter((column) => {
    if (seen.has(column.key) || !runs.some((run) => endOf(run, column, scope) !== undefined)) return false;
    // A success that trainer and batch both tell of is shown once.
    const name = `${column.title} of ${column.metric}`;
    if (seen.has(name)) return false;
    seen.add(column.key);
    seen.add(name);
    return true;
  });
}

/** Positions of the runs in the order of `sort`: `name`, `step`, a column's key, each with `-` for downwards. */
export function sortedRuns(runs, sort, columns, scope) {
  const positions = runs.map((_, i) => i);
  const down = sort.startsWith("-");
  const key = down ? sort.slice(1) : sort;
  const column = columns.find((each) => each.key === key);
  const value = (run) => {
    if (key === "name") return run.name;
    if (key === "step") return run.last_step;
    return endOf(run, column, scope)?.value;
  };
  if (key !== "name" && key !== "step" && column === undefined) return positions;
  const isThere = (found) => typeof found === "string" || isNumber(found);
  return positions.sort((a, b) => {
    const [left, right] = [value(runs[a]), value(runs[b])];
    // What was not measured is last, whichever way the others stand.
    if (!isThere(left) || !isThere(right)) return Number(isThere(right)) - Number(isThere(left)) || a - b;
    const order = typeof left === "string" ? left.localeCompare(right) : left - right;
    return (down ? -order : order) || a - b;
  });
}

/** The next order when a head is pressed: upwards, downwards, as the runs were picked. */
export function nextSort(sort, key) {
  if (sort === key) return `-${key}`;
  return sort === `-${key}` ? "" : key;
}

/** Settings by which runs can be grouped: those that two of them share and another does not. */
export function groupingKeys(rows) {
  return rows
    .filter(({ values, differs }) => differs && values.some((value) => value !== undefined))
    .map(({ key }) => key);
}
