/** The prompts of a step: skill, what their reasonings fit, rewards, which filter keeps them. */

import { formatNumber, formatPercent, formatStep, isNumber, plural } from "../format.js";
import { CAUSES } from "../prompts.js";
import { scrollRegion, shareBar } from "./components.js";
import { el, rerender, setText } from "./dom.js";

const FIRST_SHOWN = 64;

/** Columns that sort, by the name of their order in prompts.js. */
const COLUMNS = [
  { order: "number", text: "#", words: "Place in the batch", hint: "Place in the batch", numeric: true },
  { text: "Prompt" },
  { order: "skill", text: "Skill", hint: "Retrieval skill of the prompt: 0 is chance, 1 is perfect" },
  { order: "change", text: "Change", hint: "Skill here minus skill at the other step", beside: true },
  { text: "Fits best", hint: "The prompt that its reasonings fit best, and how many of them", matrix: true },
  {
    order: "attracts",
    text: "Attracts",
    hint: "Share of the other prompts’ reasonings that fit this prompt best",
    matrix: true,
    numeric: true,
  },
  { order: "reward", text: "Reward", hint: "Mean reward of the group", numeric: true },
  { order: "variance", text: "Variance", hint: "Variance of the rewards within the group", numeric: true },
  { text: "Kept by", hint: "Which filter rules keep the prompt at this step", filters: true },
  {
    order: "kept",
    text: "Last kept",
    hint: "Last step at which the chosen rule kept it",
    filters: true,
    numeric: true,
  },
];

/** `onOrder` gets the order that a person chose; `onRule` the filter rule that “last kept” is about. */
export function promptTable({ onOrder, onRule }) {
  const rule = el("select", {
    data: { testid: "kept-rule" },
    on: { change: () => onRule(rule.value) },
  });
  const ruleLabel = el(
    "label",
    { class: "control" },
    el("span", { class: "control-label", text: "Filter rule" }),
    rule,
  );
  // A narrow screen shows no heads of columns to sort by.
  const sort = el("select", {
    data: { testid: "prompt-sort" },
    on: { change: () => onOrder(sort.value, false) },
  });
  const sortLabel = el(
    "label",
    { class: "control prompt-sort" },
    el("span", { class: "control-label", text: "Sorted by" }),
    sort,
  );
  const note = el("p", { class: "card-note", data: { testid: "kept-note" } });
  const region = scrollRegion("Prompts of the step");
  const all = el("button", {
    class: "link-button",
    type: "button",
    hidden: true,
    data: { testid: "all-prompts" },
    on: {
      click: () => {
        showsAll = true;
        draw();
      },
    },
  });
  let showsAll = false;
  let shown = null;
  const root = el(
    "section",
    { class: "card prompt-card", "aria-label": "Prompts", data: { testid: "prompt-table" } },
    el(
      "header",
      { class: "figure-head" },
      el("h3", { class: "figure-title", text: "Prompts" }),
      sortLabel,
      ruleLabel,
    ),
    note,
    region,
    all,
  );
  function draw() {
    const { rows, order, reverse, chosenRule, then, rolloutsOf } = shown;
    const has = {
      beside: then !== null,
      matrix: rows.some((row) => row.fits !== null),
      filters: rows.some((row) => row.keptBy.length > 0),
    };
    const columns = COLUMNS.filter(
      (column) =>
        (!column.beside || has.beside) && (!column.matrix || has.matrix) && (!column.filters || has.filters),
    );
    const sortable = columns.filter((column) => column.order !== undefined);
    rerender(sort, JSON.stringify([sortable, order]), () =>
      sortable.map((column) =>
        el("option", {
          value: column.order,
          text: column.words ?? column.text,
          selected: column.order === order,
        }),
      ),
    );
    const visible = showsAll ? rows : rows.slice(0, FIRST_SHOWN);
    rerender(
      region,
      JSON.stringify([columns.length, visible, order, reverse, chosenRule, then, rolloutsOf("")]),
      () => [
        el(
          "table",
          { class: "data prompt-table" },
          el(
            "thead",
            {},
            el(
              "tr",
              {},
              columns.map((column) => headCell(column, { order, reverse, onOrder })),
            ),
          ),
          el(
            "tbody",
            {},
            visible.map((row) => promptRow(row, { has, chosenRule, then, rolloutsOf })),
          ),
        ),
      ],
    );
    all.hidden = visible.length === rows.length;
    setText(all, `Show all ${plural(rows.length, "prompt")}`);
  }
  return {
    root,
    /**
     * `rows` of prompts.js in their order; `then`: the step beside, or null; `kept`: the history, or null;
     * `rolloutsOf(groupId)`: the address of what was written to a prompt, null where it cannot be read.
     */
    update(next) {
      shown = next;
      const rules = next.rows[0]?.keptBy.map((one) => one.rule) ?? [];
      ruleLabel.hidden = rules.length === 0;
      rerender(rule, JSON.stringify([rules, next.chosenRule]), () =>
        rules.map((value) => el("option", { value, text: value, selected: value === next.chosenRule })),
      );
      rerender(note, JSON.stringify([next.kept, next.chosenRule]), () => [
        keptWords(next.kept, next.chosenRule),
      ]);
      draw();
    },
  };
}

/** How much a rule keeps and whom it starves, in one line. */
function keptWords(kept, chosenRule) {
  const rule = kept?.rules.find((one) => one.rule === chosenRule);
  if (rule === undefined) return el("span");
  const starved = kept.groups.filter((group) => group.last_kept[chosenRule] === null).length;
  const span =
    kept.num_steps === 1
      ? "at this step"
      : `over ${plural(kept.num_steps, "scored step")} up to step ${formatStep(kept.step)}`;
  const parts = [
    `${chosenRule} would have kept ${formatPercent(rule.kept_ratio)} of the groups ${span}`,
    `${formatPercent(rule.coverage)} of them at least once`,
  ];
  const tail = starved === 0 ? "" : `; ${plural(starved, "prompt")} of this step never.`;
  return el("span", { text: `${parts.join(", ")}${tail === "" ? "." : tail}` });
}

/**
 * @param {Record<string, any>} column
 * @param {Record<string, any>} options
 */
function headCell({ order, text, hint, numeric }, { order: chosen, reverse, onOrder }) {
  const place = numeric ? "numeric" : null;
  if (order === undefined) return el("th", { scope: "col", title: hint, text });
  const isChosen = order === chosen;
  return el(
    "th",
    { scope: "col", class: place, "aria-sort": isChosen ? (reverse ? "descending" : "ascending") : null },
    el(
      "button",
      {
        class: "sort-button",
        type: "button",
        title: hint,
        data: { focusKey: `sort-${order}`, testid: `sort-${order}` },
        on: { click: () => onOrder(order, isChosen ? !reverse : false) },
      },
      el("span", { text }),
      el("span", { class: "sort-mark", "aria-hidden": "true", text: isChosen ? (reverse ? "▾" : "▴") : "" }),
    ),
  );
}

function promptRow(row, { has, chosenRule, then, rolloutsOf }) {
  const cell = (label, ...children) => el("td", { data: { label } }, ...children);
  const number = (label, text) => el("td", { class: "numeric", data: { label }, text });
  return el(
    "tr",
    { data: { testid: "prompt-row" } },
    el("td", { class: "numeric faint cell-number", text: String(row.number) }),
    el("th", { scope: "row", class: "cell-prompt" }, promptName(row, rolloutsOf), ...promptFacts(row)),
    el("td", { class: "cell-retrieved", data: { label: "skill" } }, ...skillCell(row)),
    has.beside ? cell("change", changeMark(row, then)) : null,
    has.matrix ? cell("fits best", fitsMark(row)) : null,
    has.matrix ? number("attracts", isNumber(row.attracts) ? formatPercent(row.attracts) : "–") : null,
    number("reward", formatNumber(row.reward)),
    number("variance", formatNumber(row.variance)),
    has.filters ? cell("kept by", keptMarks(row.keptBy)) : null,
    has.filters ? number("last kept", lastKeptWords(row, chosenRule)) : null,
  );
}

/** The prompt's text, as a link to what was written to it where that can be read. */
function promptName({ groupIds, text }, rolloutsOf) {
  const href = groupIds.length > 0 ? rolloutsOf(groupIds[0]) : null;
  const about = { class: "prompt-text", title: text, text };
  return href === null ? el("span", about) : el("a", { ...about, href });
}

function promptFacts({ cause, history }) {
  const facts = [];
  if (cause !== null) facts.push(`no reward variance — ${CAUSES[cause] ?? cause}`);
  if (isNumber(history?.allFailSince))
    facts.push(`every try failed since step ${formatStep(history.allFailSince)}`);
  return facts.map((text) => el("span", { class: "prompt-cause", text }));
}

function skillCell({ skill, accuracy, chance, numRows }) {
  return [
    el(
      "span",
      { class: "bar-line" },
      shareBar(skill ?? 0),
      el("span", { class: "numeric", text: formatNumber(skill) }),
    ),
    el("span", {
      class: "faint",
      text: `${formatPercent(accuracy)} of ${formatStep(numRows)}, chance ${formatPercent(chance)}`,
    }),
  ];
}

function changeMark({ change, skillThen }, then) {
  if (!isNumber(change)) return el("span", { class: "faint", text: `not at step ${formatStep(then)}` });
  const sign = change > 0 ? "+" : "";
  return el("span", {
    class: `numeric${change <= -0.3 ? " change-bad" : ""}`,
    title: `${formatNumber(skillThen)} at step ${formatStep(then)}`,
    text: `${sign}${formatNumber(change)}`,
  });
}

function fitsMark({ fits, number }) {
  const isOwn = fits.number === number;
  return el("span", {
    class: isOwn ? "faint" : "fits-other",
    text: `${isOwn ? "itself" : `#${fits.number}`}, ${formatPercent(fits.share)}`,
  });
}

/** One mark per rule: filled where it keeps the prompt. */
function keptMarks(keptBy) {
  const kept = keptBy.filter((one) => one.kept).map((one) => one.rule);
  const words = kept.length === 0 ? "no rule" : kept.join(", ");
  return el(
    "span",
    { class: "kept-marks", title: `Kept by ${words}` },
    el("span", { "aria-hidden": "true", text: keptBy.map((one) => (one.kept ? "●" : "○")).join("") }),
    el("span", { class: "visually-hidden", text: words }),
  );
}

function lastKeptWords({ history }, rule) {
  if (history === null) return "–";
  const step = history.lastKept[rule];
  return isNumber(step) ? `step ${formatStep(step)}` : "never";
}
