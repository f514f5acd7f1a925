/** The table of where the compared runs stand, and what their groups come to. */

import { endColumns, endOf, nextSort, sortedRuns } from "../compare_table.js";
import { formatInterval, formatNumber, formatPercent, formatStep, plural } from "../format.js";
import { runHref } from "../routes.js";
import { lastSeenWords } from "../run_states.js";
import { alertCounts, infoButton, regimeBadge, scrollRegion, stateMark } from "./components.js";
import { compareKey } from "./compare_key.js";
import { el, rerender } from "./dom.js";
import { icon } from "./icons.js";
import { scorerParts } from "./scorer_line.js";

const TITLE = "Where the runs stand";
const EXPLANATION = {
  explanation:
    "The newest value of each run, with its 95 % interval over prompts where the metric has one, and the mean of the newest ten values. Of a group of runs the mean, with the 95 % interval over its runs.",
  formula: "group: mean ± t · s / √runs (Student’s t)",
};

/** `onSort(sort)` and `onRemove(runId)` take what was pressed; without `onRemove` runs cannot be taken away. */
export function endTable({ metricsInfo, onSort, onRemove }) {
  const host = scrollRegion(TITLE);
  const root = el(
    "section",
    { class: "card compare-ends", data: { testid: "compare-ends" } },
    el(
      "header",
      { class: "figure-head" },
      el("h2", { class: "figure-title" }, el("span", { text: TITLE }), infoButton(TITLE, EXPLANATION)),
    ),
    host,
  );
  return {
    root,
    /** `styles`: the look of each run; `groups` as the API answers them, with their own `style`. */
    update({ runs, scope, groups, styles, sort, added }) {
      const columns = endColumns(runs, scope, added);
      const seen = runs.map((run) => lastSeenWords(run, Date.now()));
      const known = JSON.stringify([runs, scope, groups, styles, sort, columns, seen]);
      rerender(host, known, () => {
        const order = sortedRuns(runs, sort, columns, scope);
        const rowOf = (i) =>
          runRow(runs[i], {
            style: styles[i],
            seen: seen[i],
            columns,
            scope,
            onRemove: runs.length > 1 ? onRemove : null,
          });
        return [
          el(
            "table",
            { class: "data ends" },
            el("caption", { class: "visually-hidden", text: TITLE }),
            tableHead(columns, { sort, onSort, metricsInfo, withRemove: onRemove !== null }),
            groups.length === 0
              ? el("tbody", {}, order.map(rowOf))
              : groups.map((group) => groupBody(group, { runs, order, rowOf, columns, scope })),
          ),
        ];
      });
    },
  };
}

function tableHead(columns, { sort, onSort, metricsInfo, withRemove }) {
  const head = (key, title, { numeric = false, hint = null } = {}) => {
    const direction = sort === key ? "ascending" : sort === `-${key}` ? "descending" : "none";
    return el(
      "th",
      { scope: "col", class: numeric ? "numeric" : null, "aria-sort": direction },
      el(
        "button",
        {
          class: "sort-button",
          type: "button",
          title: hint,
          data: { focusKey: `sort ${key}` },
          on: { click: () => onSort(nextSort(sort, key)) },
        },
        el("span", { text: title }),
        el("span", {
          class: "sort-mark",
          "aria-hidden": "true",
          text: { ascending: "▲", descending: "▼", none: "" }[direction],
        }),
      ),
    );
  };
  return el(
    "thead",
    {},
    el(
      "tr",
      {},
      head("name", "Run"),
      el("th", { scope: "col", text: "Regime" }),
      head("step", "Step", { numeric: true }),
      columns.map((column) =>
        head(column.key, column.title, { numeric: true, hint: metricsInfo[column.metric]?.explanation }),
      ),
      el("th", { scope: "col", text: "Open alerts" }),
      el("th", { scope: "col", text: "Scored by" }),
      withRemove ? el("td", {}) : null,
    ),
  );
}

function runRow(run, { style, seen, columns, scope, onRemove }) {
  return el(
    "tr",
    { data: { testid: "compare-head", runId: run.run_id } },
    el(
      "th",
      { scope: "row", class: "cell-name" },
      el(
        "span",
        { class: "ends-name" },
        compareKey(style),
        el("a", { class: "run-link", href: runHref(run.run_id), text: run.name }),
      ),
      el(
        "span",
        { class: "run-meta" },
        stateMark(run.state),
        el("span", { text: run.project }),
        seen === "" ? null : el("span", { class: "last-seen", text: seen }),
      ),
    ),
    el(
      "td",
      { class: "cell-regime" },
      regimeBadge(run.regime?.regime),
      run.regime
        ? el("span", { class: "regime-reason", title: run.regime.reason, text: run.regime.reason })
        : null,
    ),
    el("td", { class: "numeric", text: formatStep(run.last_step) }),
    columns.map((column) => endCell(run, column, scope)),
    el("td", {}, alertCounts(run.open_alerts)),
    el(
      "td",
      { class: "cell-scorer" },
      el(
        "span",
        { class: "scorer", data: { testid: "compare-scorer" } },
        run.scorer === null
          ? [el("span", { text: "Not scored yet" })]
          : scorerParts(run.scorer, run.sampling),
      ),
    ),
    onRemove === null
      ? null
      : el(
          "td",
          {},
          el(
            "button",
            {
              class: "icon-button",
              type: "button",
              "aria-label": `Take ${run.name} out of the comparison`,
              title: "Take out of the comparison",
              data: { testid: "compare-remove" },
              on: { click: () => onRemove(run.run_id) },
            },
            icon("close", 16),
          ),
        ),
  );
}

const formatOf = ({ share = false }) => (share ? formatPercent : formatNumber);

function endCell(run, column, scope) {
  const end = endOf(run, column, scope);
  const format = formatOf(column);
  if (end === undefined) {
    const reason = run.absent[column.metric];
    return el("td", {
      class: "numeric faint",
      title: reason,
      text: reason === undefined ? "–" : "not measured",
    });
  }
  const interval = formatInterval(end.low, end.high, format);
  const title =
    `at step ${formatStep(end.step)}` +
    (end.num_recent > 1
      ? `; mean of the newest ${formatStep(end.num_recent)}: ${format(end.recent_mean)}`
      : "");
  return el(
    "td",
    { class: "numeric", title },
    el("strong", { text: format(end.value) }),
    interval === "" ? null : el("span", { class: "ends-interval", text: interval }),
    end.num_recent > 1 ? el("span", { class: "ends-mean", text: `⌀ ${format(end.recent_mean)}` }) : null,
  );
}

function groupBody(group, { runs, order, rowOf, columns, scope }) {
  const own = order.filter((i) => group.run_ids.includes(runs[i].run_id));
  return el(
    "tbody",
    {},
    el(
      "tr",
      { class: "ends-group", data: { testid: "compare-group-row" } },
      el(
        "th",
        { scope: "rowgroup", class: "cell-name" },
        el("span", { class: "ends-name" }, compareKey(group.style), el("span", { text: group.label })),
        el("span", { class: "run-meta", text: `mean of ${plural(group.run_ids.length, "run")}` }),
      ),
      el("td", {}),
      el("td", {}),
      columns.map((column) => groupCell(group, column, scope)),
      el("td", {}),
      el("td", {}),
      el("td", {}),
    ),
    own.map(rowOf),
  );
}

function groupCell(group, column, scope) {
  const end = endOf(group, column, scope);
  const format = formatOf(column);
  if (end === undefined) return el("td", { class: "numeric faint", text: "–" });
  const interval = formatInterval(end.low, end.high, format);
  const partial = end.num_runs < group.run_ids.length ? `of ${end.num_runs}` : "";
  return el(
    "td",
    { class: "numeric", title: `mean of ${plural(end.num_runs, "run")}` },
    el("strong", { text: format(end.mean) }),
    interval === "" ? null : el("span", { class: "ends-interval", text: interval }),
    partial === "" ? null : el("span", { class: "ends-mean", text: partial }),
  );
}
