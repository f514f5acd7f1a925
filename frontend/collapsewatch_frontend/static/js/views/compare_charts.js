/** The figures of a comparison: the quadrant, the usual metrics, and those that a person added. */

import { addable, sharedReference } from "../compare.js";
import { onDependenceGround, compareQuadrant, placedPath } from "../figures/compare_quadrant.js";
import { compareFigure } from "../figures/compare_lines.js";
import { formatNumber, humanise } from "../format.js";
import { SCORED } from "../panels.js";
import { el, KeyedList, rerender } from "./dom.js";
import { figureCard } from "./figure_card.js";
import { chartTheme } from "./theme.js";

const QUADRANT_INFO = {
  explanation:
    "All runs in one plane, each over its own baseline; the shaded regions use the thresholds of the first run. A long way is that of the means of stretches of its steps.",
  formula: "x = H(Z|X) ÷ baseline, y = retrieval skill",
};
const REFERENCE_NAMES = { mi_ceiling: "ceiling", retrieval_chance: "chance" };

const subject = () => ["comparison"];

/** One figure of a comparison by itself, of this size; `figure` is null for the quadrant. */
export function comparedChart(figure, { metricsInfo, view, size }) {
  const card = figure === null ? quadrantCard({ view }) : figureCardOf(figure, { metricsInfo, view, size });
  return {
    root: card.root,
    /** `state`: what `drawnState` makes. */
    update: (state) => (figure === null ? updateQuadrant(card, state) : updateFigure(card, figure, state)),
    destroy: () => card.destroy(),
  };
}

function quadrantCard({ view, shareOf = null }) {
  const title = "Reasoning quadrant";
  const share = shareOf && (() => shareOf(null, title));
  return figureCard({
    id: "compare-quadrant",
    title,
    size: "hero",
    level: "h2",
    info: QUADRANT_INFO,
    view,
    subject,
    share,
  });
}

function figureCardOf(figure, { metricsInfo, view, size = figure.size, shareOf = null }) {
  const title = titleOf(figure, metricsInfo);
  return figureCard({
    id: `compare-${figure.id}`,
    title,
    size,
    info: metricsInfo[figure.metric],
    view,
    subject,
    share: shareOf && (() => shareOf(figure, title)),
  });
}

/**
 * All figures. `onAdd(key)` and `onRemove(key)` take a metric that shall be drawn, or no longer; `shareOf(figure,
 * title)` tells what a link to one shows, without it none is offered.
 */
export function comparedCharts({ metricsInfo, view, figures, onAdd, onRemove, isFixed, shareOf }) {
  const quadrant = quadrantCard({ view, shareOf });
  const cardOf = (figure) => figureCardOf(figure, { metricsInfo, view, shareOf });
  const usual = figures
    .filter((figure) => !figure.isAdded)
    .map((figure) => ({ figure, card: cardOf(figure) }));
  const tall = usual.filter(({ figure }) => figure.size === "tall");
  const small = usual.filter(({ figure }) => figure.size !== "tall");
  const addedGrid = el("div", { class: "figure-grid" });
  const added = new KeyedList(addedGrid, {
    keyOf: ({ figure }) => figure.key,
    create: ({ figure }) => addedCard(figure, { card: cardOf(figure), onRemove: isFixed ? null : onRemove }),
  });
  const adder = metricAdder(onAdd);
  adder.root.hidden = isFixed;
  const root = el(
    "div",
    {},
    el(
      "div",
      { class: "hero-grid" },
      quadrant.root,
      el(
        "div",
        { class: "hero-side" },
        tall.map(({ card }) => card.root),
      ),
    ),
    el(
      "div",
      { class: "figure-grid" },
      small.map(({ card }) => card.root),
    ),
    addedGrid,
    adder.root,
  );
  return {
    root,
    /** `state`: what `drawnState` makes. */
    update(state) {
      updateQuadrant(quadrant, state);
      for (const { figure, card } of usual) updateFigure(card, figure, state);
      added.update(
        state.data
          .figures()
          .filter((figure) => figure.isAdded)
          .map((figure) => ({ figure, state })),
      );
      addedGrid.hidden = addedGrid.childElementCount === 0;
      adder.update(addable(state.data.runs, state.data.scope, state.data.figures()), metricsInfo);
    },
    destroy() {
      quadrant.destroy();
      for (const { card } of usual) card.destroy();
      added.update([]);
    },
  };
}

const titleOf = (figure, metricsInfo) =>
  figure.isAdded ? (metricsInfo[figure.metric]?.title ?? humanise(figure.metric)) : figure.title;

function addedCard(figure, { card, onRemove }) {
  const button = el("button", {
    class: "link-button added-remove",
    type: "button",
    text: "Remove this chart",
    on: { click: () => onRemove(figure.key) },
  });
  if (onRemove !== null) card.root.append(button);
  return {
    root: card.root,
    update: ({ figure: latest, state }) => updateFigure(card, latest, state),
    destroy: card.destroy,
  };
}

function metricAdder(onAdd) {
  const select = el("select", { id: "compare-add", data: { testid: "compare-add" } });
  select.addEventListener("change", () => {
    if (select.value !== "") onAdd(select.value);
    select.value = "";
  });
  const root = el(
    "p",
    { class: "compare-adder" },
    el(
      "label",
      { class: "control", for: "compare-add" },
      el("span", { class: "control-label", text: "Another metric" }),
      select,
    ),
  );
  return {
    root,
    update(metrics, metricsInfo) {
      select.disabled = metrics.length === 0;
      rerender(select, JSON.stringify(metrics), () => [
        el("option", { value: "", text: metrics.length === 0 ? "All are drawn" : "Add a chart …" }),
        metrics.map(({ key, scope, metric }) =>
          el("option", {
            value: key,
            text: `${metricsInfo[metric]?.title ?? metric}${scope === SCORED ? "" : ` (${scope})`}`,
          }),
        ),
      ]);
    },
  };
}

function updateQuadrant(card, state) {
  const { data, members, means, emphasis, revision } = state;
  const paths = data.shown.paths;
  const there = members.filter(({ run }) => paths.has(run.run_id));
  if (there.length === 0) {
    sayReason(card, data.shown.series.size === 0 ? "" : "None of these runs has been scored yet.");
    return;
  }
  if (!there.some(({ run }) => placedPath(paths.get(run.run_id)).length > 0)) {
    const figure = { metric: "retrieval_skill", scope: SCORED, title: "Retrieval skill" };
    const thresholds = there[0].run.thresholds;
    updateFigure(card, figure, state, (drawn, options) =>
      onDependenceGround(drawn, { thresholds, ...options }),
    );
    return;
  }
  const { choice } = state;
  const inputs = [
    ...[revision, emphasis, choice.hidden.join()],
    ...there.flatMap(({ run, style }) => [
      paths.get(run.run_id),
      run.name,
      style.token,
      JSON.stringify([run.newest, run.thresholds]),
    ]),
    ...means.flatMap(({ name, place }) => [name, data.shown.groupPaths[place]]),
  ];
  if (isDrawn(card, inputs)) return;
  card.update({
    label: `Ways through the quadrant of ${there.map(({ run }) => run.name).join(", ")}.`,
    build: ({ compact, ...size }) => {
      const theme = chartTheme();
      return compareQuadrant({
        runs: there.map(({ run, style, isFaint }) => ({
          name: run.name,
          ...lookOf(style, theme),
          path: paths.get(run.run_id),
          newest: run.newest,
          thresholds: run.thresholds,
          isFaint,
        })),
        groups: means.flatMap(({ name, style, place, size: count }) => {
          const path = data.shown.groupPaths.find(({ group }) => group === place);
          return path === undefined ? [] : [{ name, ...lookOf(style, theme), path, size: count }];
        }),
        emphasis,
        theme,
        compact,
        revision,
        size,
      });
    },
  });
}

/** Of each card what it was drawn from: to draw twenty lines again takes longer than to see that they are the same. */
const drawnFrom = new WeakMap();

function isDrawn(card, inputs) {
  const before = drawnFrom.get(card);
  drawnFrom.set(card, inputs);
  return (
    before !== undefined && before.length === inputs.length && before.every((each, i) => each === inputs[i])
  );
}

function sayReason(card, reason) {
  drawnFrom.delete(card);
  card.update({ reason });
}

const lookOf = ({ colour, dash, symbol }, theme) => ({ colour: theme.runs[colour], dash, symbol });

/**
 * Draws one metric, or says why there is nothing to draw; `onGround` may change what was made of it.
 * @param {any} card
 * @param {any} figure
 * @param {any} state
 * @param {(drawn: any, options: any) => any} [onGround]
 */
function updateFigure(card, figure, state, onGround = (drawn) => drawn) {
  const { data, members, means, emphasis, choice, revision } = state;
  const lines = members
    .map(({ run, style, isFaint }) => ({
      run,
      style,
      isFaint,
      series: data.seriesOf(figure.scope, figure.metric, run.run_id),
    }))
    .filter(({ series }) => series !== undefined && series.steps.length > 0);
  const groups = data.groupSeries(figure.scope, figure.metric);
  const drawnMeans = means
    .map((mean) => ({ ...mean, series: groups.find(({ group }) => group === mean.place) }))
    .filter(({ series }) => series !== undefined && series.places.length > 0);
  if (lines.length === 0 && drawnMeans.length === 0) {
    sayReason(card, reasonFor(figure, state));
    return;
  }
  const level = figure.reference
    ? sharedReference(data.runs.map((run) => data.seriesOf(figure.scope, figure.reference, run.run_id)))
    : null;
  const range = data.placeRange();
  const inputs = [
    ...[revision, emphasis, choice.band, level, String(range)],
    ...lines.flatMap(({ run, style, isFaint, series }) => [series, run.name, style.token, isFaint]),
    ...drawnMeans.flatMap(({ name, size, series }) => [name, size, series]),
  ];
  if (isDrawn(card, inputs)) return;
  card.update({
    label: `${figure.title}: ${lines.map(({ run, series }) => `${run.name} ${formatNumber(series.values[series.values.length - 1])}`).join(", ")}`,
    build: ({ compact }) => {
      const theme = chartTheme();
      const drawn = compareFigure({
        lines: lines.map(({ run, style, isFaint, series }) => ({
          name: run.name,
          ...lookOf(style, theme),
          isFaint,
          series,
        })),
        means: drawnMeans.map(({ name, style, size, series }) => ({
          name,
          ...lookOf(style, theme),
          size,
          series,
        })),
        references: level === null ? [] : [{ value: level, name: REFERENCE_NAMES[figure.reference] }],
        axisName: data.shown.axis,
        band: choice.band,
        emphasis,
        range,
        yRange: figure.yRange,
        share: figure.share,
        theme,
        compact,
        revision,
      });
      return onGround(drawn, { theme, compact, revision });
    },
  });
}

function reasonFor(figure, { data, members }) {
  if (members.length === 0) return "All runs are hidden. Press one in the legend to show it.";
  if (data.shown.series.size === 0) return "";
  const unplaced = members.map(({ run }) => data.shown.unplaced[run.run_id]).filter(Boolean);
  if (unplaced.length === members.length) return `No run has a place on this axis: ${unplaced[0]}.`;
  const reason = data.absentReason(figure.metric);
  return reason === null ? "Not measured in these runs." : `Not measured: ${reason}.`;
}
