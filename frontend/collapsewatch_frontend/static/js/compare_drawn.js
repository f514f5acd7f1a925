/** What of a comparison is drawn, in which look, and the legend of that. Pure. */

import { runStyle } from "./run_styles.js";

/** Why an axis has no run on it, where none has. */
export function missingAxes(runs) {
  if (runs.some((run) => run.tokens_from !== null)) return {};
  return { tokens: "No run logs a number of tokens: log it as “num_tokens” to compare by it." };
}

/** The ids that are hidden after a press: those of a run, or of all runs of a group. */
export function toggled(hidden, { isOn, runIds }) {
  const rest = hidden.filter((runId) => !runIds.includes(runId));
  return isOn ? [...rest, ...runIds] : rest;
}

/** What is drawn: each run, or each group with its runs behind it, in its look, and the legend of that. */
export function drawnState({ data, view, emphasis }) {
  const { runs, choice, shown } = data;
  const isOn = (runId) => !choice.hidden.includes(runId);
  const groupOf = (runId) => shown.groups.findIndex((group) => group.run_ids.includes(runId));
  const grouped = shown.groups.length > 0;
  const styles = runs.map((run, i) => runStyle(grouped ? Math.max(0, groupOf(run.run_id)) : i));
  const names = distinctNames(runs);
  const members = runs
    .map((run, i) => ({ run: { ...run, name: names[i] }, style: styles[i], isFaint: grouped }))
    .filter(({ run }) => isOn(run.run_id));
  const means = shown.groups
    .map((group, place) => ({
      name: group.label,
      place,
      style: runStyle(place),
      size: group.run_ids.length,
      group,
    }))
    .filter(({ group }) => group.run_ids.some(isOn));
  const items = grouped
    ? shown.groups.map((group, i) => ({
        key: group.label,
        name: group.label,
        style: runStyle(i),
        isOn: group.run_ids.some(isOn),
        runIds: group.run_ids,
        numRuns: group.run_ids.length,
      }))
    : runs.map((run, i) => ({
        key: run.run_id,
        name: names[i],
        style: styles[i],
        isOn: isOn(run.run_id),
        runIds: [run.run_id],
      }));
  const revision = `compare ${shown.axis} ${data.scope} ${view.axis}`;
  return { data, choice, members, means, items, styles, emphasis, revision };
}

/** Names of the runs, with the start of the id where two have the same. */
function distinctNames(runs) {
  const counts = new Map();
  for (const { name } of runs) counts.set(name, (counts.get(name) ?? 0) + 1);
  return runs.map(({ name, run_id: id }) => (counts.get(name) > 1 ? `${name} (${id.slice(0, 6)})` : name));
}
