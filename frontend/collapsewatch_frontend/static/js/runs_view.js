/** What the list of runs shows of its runs, and in which order; all of it stands in the address. Pure. */

import { regimeInfo } from "./regimes.js";
import { runStateInfo } from "./run_states.js";

/** The view of an address; an unknown order is the usual one: newest first. */
export function runsChoice(params) {
  const word = (name) => params.get(name) ?? "";
  const sort = word("sort");
  return {
    project: word("project"),
    search: word("q"),
    tag: word("tag"),
    state: word("state"),
    group: word("group"),
    sort: Object.hasOwn(SORTS, sort.replace(/^-/, "")) ? sort : "",
    archived: word("show") === "archived",
  };
}

/**
 * The same as parameters of an address; what is usual is left out.
 * @param {Record<string, any>} [view]
 */
export function runsQuery({ project, search, tag, state, group, sort, archived } = {}) {
  return { project, q: search, tag, state, group, sort, show: archived ? "archived" : "" };
}

/** `of` gives what is compared: a number, a text, or nothing; `first` is the direction of a first click. */
export const SORTS = {
  created: { name: "Started", of: (run) => run.created_at, first: "-" },
  updated: { name: "Updated", of: (run) => run.updated_at, first: "-" },
  name: { name: "Run", of: (run) => run.name.toLowerCase(), first: "" },
  regime: {
    name: "Regime",
    of: (run) => (run.regime ? regimeInfo(run.regime.regime).name : null),
    first: "",
  },
  skill: { name: "Retrieval skill", of: (run) => run.latest.retrieval_skill, first: "" },
  accuracy: { name: "Retrieval accuracy", of: (run) => run.latest.retrieval_accuracy, first: "" },
  reward: { name: "Reward", of: (run) => run.latest.reward, first: "-" },
  step: { name: "Step", of: (run) => run.last_step, first: "-" },
  alerts: { name: "Open alerts", of: urgency, first: "-" },
  state: { name: "State", of: (run) => runStateInfo(run.state).name, first: "" },
};

/** Critical alerts weigh more than any number of warnings, and those more than any news. */
function urgency({ open_alerts: { critical = 0, warning = 0, info = 0 } }) {
  return critical * 1e8 + warning * 1e4 + info;
}

/** The order after a click on a column: its own first, then the other way, then the usual one again. */
export function nextSort(sort, column) {
  const { first } = SORTS[column];
  const other = first === "-" ? "" : "-";
  if (sort === `${first}${column}`) return `${other}${column}`;
  return sort === `${other}${column}` ? "" : `${first}${column}`;
}

/** `ascending`, `descending` or nothing, for a column's head. */
export function sortDirection(sort, column) {
  if (sort.replace(/^-/, "") !== column) return null;
  return sort.startsWith("-") ? "descending" : "ascending";
}

/** The runs in the order of `sort`; what has no value comes last both ways, and equals newest first. */
export function sortedRuns(runs, sort) {
  const name = sort.replace(/^-/, "") || "created";
  const sign = sort === "" || sort.startsWith("-") ? -1 : 1;
  const { of } = SORTS[name];
  const valued = runs.map((run) => ({ run, value: of(run) ?? null }));
  // Of runs that began in the same moment the order of the server stays.
  valued.sort(
    (a, b) => compareValues(a.value, b.value, sign) || b.run.created_at.localeCompare(a.run.created_at),
  );
  return valued.map(({ run }) => run);
}

function compareValues(a, b, sign) {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  if (a === b) return 0;
  return a < b ? -sign : sign;
}

/** The runs that are asked for: every word of the search in some text of the run, its tag and its state. */
export function matchingRuns(runs, { search, tag, state }) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return runs.filter(
    (run) =>
      (tag === "" || run.tags.includes(tag)) &&
      (state === "" || run.state === state) &&
      words.every((word) => textsOf(run).some((text) => text.toLowerCase().includes(word))),
  );
}

const textsOf = (run) => [
  run.name,
  run.given_name,
  run.run_id,
  run.project,
  run.notes,
  ...run.tags,
  run.regime ? regimeInfo(run.regime.regime).name : "",
];

/** Whether anything but the project, the order and the grouping narrows the list. */
export const isNarrowed = ({ search, tag, state }) => search.trim() !== "" || tag !== "" || state !== "";

const OWN_GROUPS = {
  project: { name: "Project", of: (run) => run.project },
  state: { name: "State", of: (run) => runStateInfo(run.state).name },
  regime: { name: "Regime", of: (run) => regimeInfo(run.regime?.regime).name },
};
const CONFIG = "config.";

/** The config key by which the view is grouped, which the server has to be asked for; else nothing. */
/** Most lines that are listed. */
export const MOST_RUNS = 2_000;

/** What the server is asked for so that a view of the list can be shown. */
export const questionOf = (view) => ({
  project: view.project,
  archived: view.archived,
  groupBy: groupKey(view),
  limit: MOST_RUNS,
});

export const groupKey = ({ group }) => (group.startsWith(CONFIG) ? group.slice(CONFIG.length) : "");

/** `[{id, name}]`: by what the list can be grouped. */
export function groupChoices(configKeys) {
  return [
    { id: "", name: "No groups" },
    ...Object.entries(OWN_GROUPS).map(([id, { name }]) => ({ id, name })),
    ...configKeys.map((key) => ({ id: `${CONFIG}${key}`, name: `config: ${key}` })),
  ];
}

/**
 * The lines of the list: `{kind: "run", key, run}`, and before the runs of each group
 * `{kind: "group", key, label, count}`. Groups by number or by name, those without a value last.
 */
export function listLines(runs, group) {
  const lines = (some) => some.map((run) => ({ kind: "run", key: run.run_id, run }));
  if (group === "") return lines(runs);
  const of = OWN_GROUPS[group]?.of ?? ((run) => run.group);
  const groups = new Map();
  for (const run of runs) {
    const value = of(run) ?? null;
    const key = JSON.stringify(value);
    if (!groups.has(key)) groups.set(key, { value, runs: [] });
    groups.get(key).runs.push(run);
  }
  const sorted = [...groups.entries()].sort(([, a], [, b]) => compareGroups(a.value, b.value));
  return sorted.flatMap(([key, { value, runs: members }]) => [
    { kind: "group", key: `group:${key}`, label: groupLabel(group, value), count: members.length },
    ...lines(members),
  ]);
}

function compareGroups(a, b) {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

function groupLabel(group, value) {
  const key = groupKey({ group });
  if (key === "") return String(value);
  return value === null ? `${key} is not set` : `${key} = ${value}`;
}

/** Tags of the runs with how many have them, the most common first. */
export function tagCounts(runs) {
  const counts = new Map();
  for (const run of runs) for (const tag of run.tags) counts.set(tag, (counts.get(tag) ?? 0) + 1);
  return [...counts.entries()]
    .map(([tag, count]) => ({ tag, count }))
    .sort((a, b) => b.count - a.count || a.tag.localeCompare(b.tag));
}

/** Tags of a text as people type them: parted by commas, each once. */
export function tagsOf(text) {
  const tags = text.split(",").map((tag) => tag.trim());
  return [...new Set(tags.filter((tag) => tag !== ""))];
}

/** Where each line begins, and behind the last one where the list ends, in pixels. */
export function lineOffsets(lines, heights) {
  const offsets = [0];
  for (const { kind } of lines) offsets.push(offsets[offsets.length - 1] + heights[kind]);
  return offsets;
}

/** The lines within `[top, bottom]`, `margin` pixels more on both sides: first, and behind the last. */
export function visibleLines(offsets, top, bottom, margin) {
  const count = offsets.length - 1;
  const first = Math.min(count, lastAtMost(offsets, Math.max(0, top - margin)));
  const end = Math.min(count, lastAtMost(offsets, Math.max(0, bottom + margin)) + 1);
  return { first, end: Math.max(first, end) };
}

/** Index of the last offset that is not above the limit; the offsets grow. */
function lastAtMost(offsets, limit) {
  let low = 0;
  let high = offsets.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (offsets[middle] <= limit) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The rows after some of them were asked for again: an asked one that was not answered is gone. */
export function mergedRows(rows, askedIds, answered) {
  const asked = new Set(askedIds);
  const fresh = new Map(answered.map((row) => [row.run_id, row]));
  const known = new Set(rows.map((row) => row.run_id));
  return [
    ...answered.filter((row) => !known.has(row.run_id)),
    ...rows.flatMap((row) => {
      if (!asked.has(row.run_id)) return [row];
      return fresh.has(row.run_id) ? [fresh.get(row.run_id)] : [];
    }),
  ];
}
