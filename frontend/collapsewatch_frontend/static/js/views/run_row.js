/** One line of the list of runs, and the head of a group of them. */

import { may } from "../access.js";
import { formatAge, formatNumber, formatStep, isNumber, plural } from "../format.js";
import { runHref } from "../routes.js";
import { isSilent, lastSeenWords } from "../run_states.js";
import { alertCounts, regimeBadge, sparkline, stateMark } from "./components.js";
import { el, rerender, setAttribute, setText } from "./dom.js";
import { icon } from "./icons.js";

const CELL_LABELS = {
  regime: "Regime",
  skill: "Retrieval skill",
  accuracy: "Retrieval accuracy",
  reward: "Reward",
  step: "Step",
  age: "Updated",
  alerts: "Open alerts",
};

export const NUM_COLUMNS = 3 + Object.keys(CELL_LABELS).length;

export function groupRow() {
  const label = el("span", { class: "group-label" });
  const count = el("span", { class: "faint" });
  const root = el(
    "tr",
    { class: "group-row", data: { testid: "run-group" } },
    el("th", { scope: "rowgroup", colspan: NUM_COLUMNS }, label, count),
  );
  return {
    root,
    update(line) {
      setText(label, line.label);
      setText(count, plural(line.count, "run"));
    },
  };
}

/** `onPick(run, isPicked)`, `onTag(tag)` and `onEdit(run)` are called with what somebody does to the line. */
export function runRow(run, { onPick, onTag, onEdit }) {
  let shown = run;
  const pick = el("input", { type: "checkbox", on: { change: () => onPick(shown, pick.checked) } });
  const cells = Object.fromEntries(
    Object.entries(CELL_LABELS).map(([name, label]) => [
      name,
      el("td", { class: `cell-${name}`, data: { label } }),
    ]),
  );
  const link = el("a", { class: "run-link" });
  const meta = el("span", { class: "run-meta" });
  const edit = may("run.edit", run.project) ? editButton(() => onEdit(shown)) : null;
  const root = el(
    "tr",
    { class: "run-row", data: { testid: "run-row", runId: run.run_id } },
    el("td", { class: "cell-pick" }, el("label", { class: "pick" }, pick)),
    el("th", { scope: "row", class: "cell-run" }, link, meta),
    Object.values(cells),
    el("td", { class: "cell-edit" }, edit),
  );
  const parts = { root, pick, link, meta, edit, cells, onTag };
  return {
    root,
    /** `withProject` is false where all runs are of one project. */
    update({ run: latest, isPicked, sparkline: line, withProject }) {
      shown = latest;
      pick.checked = isPicked;
      updateRow(parts, latest);
      updateMeta(parts, latest, withProject);
      showLine(cells.skill, latest, line);
    },
  };
}

function editButton(onClick) {
  return el(
    "button",
    {
      class: "icon-button",
      type: "button",
      title: "Name, tags, notes …",
      data: { testid: "edit-run" },
      on: { click: onClick },
    },
    icon("edit"),
  );
}

function updateRow({ root, pick, link, edit, cells }, run) {
  const urgency =
    run.open_alerts?.critical > 0 ? "critical" : run.open_alerts?.warning > 0 ? "warning" : null;
  setAttribute(root, "data-urgency", urgency);
  setAttribute(pick, "aria-label", `Select ${run.name}`);
  if (edit !== null) setAttribute(edit, "aria-label", `Edit ${run.name}`);
  setAttribute(link, "href", runHref(run.run_id));
  setAttribute(link, "title", run.name);
  setText(link, run.name);
  rerender(cells.regime, JSON.stringify(run.regime), () => [
    regimeBadge(run.regime?.regime),
    run.regime?.reason
      ? el("span", { class: "regime-reason", title: run.regime.reason, text: run.regime.reason })
      : null,
  ]);
  const { retrieval_accuracy: accuracy, retrieval_chance: chance, reward } = run.latest;
  rerender(cells.accuracy, `${accuracy} ${chance}`, () => [
    el("span", { class: "value", text: formatNumber(accuracy) }),
    isNumber(chance) ? el("span", { class: "faint", text: `chance ${formatNumber(chance)}` }) : null,
  ]);
  setText(cells.reward, formatNumber(reward));
  setText(cells.step, formatStep(run.last_step));
  setText(cells.age, formatAge(run.updated_at, Date.now()));
  rerender(cells.alerts, JSON.stringify(run.open_alerts), () => [alertCounts(run.open_alerts)]);
}

function updateMeta({ meta, onTag }, run, withProject) {
  const seen = lastSeenWords(run, Date.now());
  const signature = JSON.stringify([run.state, seen, withProject, run.project, run.tags, run.notes]);
  rerender(meta, signature, () => [
    stateMark(run.state),
    isSilent(run.state) ? el("span", { class: "last-seen", text: seen }) : null,
    withProject ? el("span", { text: run.project }) : null,
    run.notes === "" ? null : noteMark(run.notes),
    run.tags.map((tag) => tagButton(tag, onTag)),
  ]);
}

const tagButton = (tag, onTag) =>
  el("button", {
    class: "tag tag-button",
    type: "button",
    title: `Only runs with the tag ${tag}`,
    text: tag,
    data: { focusKey: `tag ${tag}` },
    on: { click: () => onTag(tag) },
  });

const noteMark = (notes) =>
  el(
    "span",
    { class: "note-mark", title: notes },
    icon("note", 14),
    el("span", { class: "visually-hidden", text: notes }),
  );

/** Until its points are there, a line that will come keeps its room. */
function showLine(cell, run, line) {
  const skill = run.latest.retrieval_skill;
  rerender(cell, JSON.stringify([skill, line]), () => {
    const number = el("span", { class: "value", text: formatNumber(skill) });
    if (line === undefined && isNumber(skill)) return [el("span", { class: "sparkline-room" }), number];
    return [sparkline(line, { width: 110, height: 30 }), isNumber(skill) ? number : null];
  });
}
