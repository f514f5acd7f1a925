/** Screen: several runs laid over one another. */

import * as api from "../api.js";
import { COMPARED, MAX_RUNS, configDifference, scoringDifference, sharedReference } from "../compare.js";
import { dependenceOverlay } from "../figures/dependence.js";
import { hasPlace, overlayFigure } from "../figures/quadrant.js";
import { lineFigure } from "../figures/lines.js";
import { formatNumber, formatSetting, formatStep, isNumber, shortName } from "../format.js";
import { Refresher } from "../refresh.js";
import { runHref, runsHref } from "../routes.js";
import { RunData, WISH } from "../run_data.js";
import { lastSeenWords } from "../run_states.js";
import { isEmpty, stepRange } from "../series.js";
import { alertCounts, notice, regimeBadge, scrollRegion, stateMark } from "./components.js";
import { el, rerender } from "./dom.js";
import { figureCard } from "./figure_card.js";
import { notFound } from "./not_found.js";
import { scorerParts } from "./scorer_line.js";
import { chartTheme } from "./theme.js";

/** The stream usually opens sooner and asks for the first load itself. */
const FIRST_LOAD_MS = 300;
/** How long ago a silent run was seen goes on without an event. */
const AGE_TICK_MS = 5_000;
const NAME_LENGTH = 38;
const token = (i) => `series-${i + 1}`;

export function mountCompare(host, { route, shell, metricsInfo }) {
  const runIds = route.runIds.slice(0, MAX_RUNS);
  if (runIds.length === 0) {
    host.replaceChildren(notFound("Pick two or more runs in the list to compare them.", "Compare runs"));
    shell.setTitle("Compare", 0);
    return { follow: () => false, onOpen() {}, onEvent() {}, destroy() {} };
  }
  const runs = runIds.map((runId) => new RunData(api, runId));
  const page = buildPage(metricsInfo);
  host.replaceChildren(page.problem, page.root);
  shell.setTitle("Compare", 0);
  const refresher = new Refresher(
    async (wishes) => {
      await Promise.all(runs.map((run) => run.load(wishesOf(run, wishes))));
      page.problem.replaceChildren();
      page.update(runs);
    },
    {
      delayMs: 800,
      onError: (error) => {
        if (error.status === 404) {
          shell.setTitle("Not found", 0);
          host.replaceChildren(notFound(`One of the runs is not there: ${error.message}.`));
          return "give up";
        }
        page.problem.replaceChildren(
          notice("bad", el("p", { text: `The runs could not be loaded: ${error.message}. Trying again.` })),
        );
        return "go on";
      },
    },
  );
  const tick = setInterval(() => page.showHeads(runs), AGE_TICK_MS);
  refresher.request(WISH.all, FIRST_LOAD_MS);
  return {
    follow: () => false,
    onOpen: () => refresher.requestNow(WISH.all),
    onEvent: (name, event) => {
      if (!runIds.includes(event.run_id)) return;
      refresher.request(
        `${event.run_id} ${name === "metrics" && Number.isInteger(event.step) ? event.step : name}`,
      );
    },
    destroy() {
      refresher.stop();
      clearInterval(tick);
      page.destroy();
    },
  };
}

/** The shared wishes (`<run> <step or event>`) as those of one run. */
function wishesOf(run, wishes) {
  if (wishes.has(WISH.all)) return new Set([WISH.all]);
  const own = new Set();
  for (const wish of wishes) {
    const [runId, what] = wish.split(" ");
    if (runId !== run.runId) continue;
    own.add(/^\d+$/.test(what) ? Number(what) : what === "alert" ? WISH.alerts : WISH.summary);
  }
  return own;
}

function buildPage(metricsInfo) {
  const problem = el("div");
  const heads = el("div", { class: "compare-heads" });
  const quadrant = figureCard({
    id: "compare-quadrant",
    title: "Reasoning quadrant",
    size: "hero",
    level: "h2",
    hasLegend: true,
    info: {
      explanation:
        "All runs in one plane, each over its own baseline; the shaded regions use the thresholds of the first run.",
    },
  });
  const cards = COMPARED.map((figure) => ({
    figure,
    card: figureCard({
      id: `compare-${figure.id}`,
      title: figure.title,
      size: figure.size,
      hasLegend: true,
      info: metricsInfo[figure.metric],
    }),
  }));
  const settings = differenceCard("Settings that differ", "config-diff");
  const scoring = differenceCard("How the scores differ", "scoring-diff");
  const unlike = el("div", { data: { testid: "scored-differently" } });
  const root = el(
    "div",
    { class: "compare-page awaiting", data: { testid: "compare-page" } },
    el(
      "div",
      { class: "page-head" },
      el(
        "div",
        {},
        el(
          "nav",
          { class: "crumbs", "aria-label": "Breadcrumb" },
          el("a", { href: runsHref(), text: "Runs" }),
        ),
        el("h1", { text: "Compare runs" }),
      ),
    ),
    heads,
    unlike,
    el(
      "div",
      { class: "hero-grid" },
      quadrant.root,
      el(
        "div",
        { class: "hero-side" },
        cards.slice(0, 3).map(({ card }) => card.root),
      ),
    ),
    el(
      "div",
      { class: "figure-grid" },
      cards.slice(3).map(({ card }) => card.root),
    ),
    scoring.root,
    settings.root,
  );
  const showHeads = (runs) => {
    if (runs.some((run) => run.summary === null)) return;
    const now = Date.now();
    const known = runs.map((run) => [
      run.summary,
      run.scope,
      run.step?.evaluation?.absent,
      lastSeenWords(run.summary, now),
    ]);
    rerender(heads, JSON.stringify(known), () => runs.map(runHead));
  };
  return {
    root,
    problem,
    showHeads,
    update(runs) {
      root.classList.remove("awaiting");
      showHeads(runs);
      updateQuadrant(quadrant, runs);
      for (const { figure, card } of cards) updateOverlay(card, figure, runs);
      showScoring(unlike, scoring, runs);
      showSettings(settings, runs);
    },
    destroy() {
      quadrant.destroy();
      for (const { card } of cards) card.destroy();
    },
  };
}

const HEAD_FACTS = [
  ["retrieval_accuracy", "Retrieval accuracy"],
  ["mi_seq", "Mutual information"],
  ["conditional_entropy", "H(Z|X)"],
  ["reward", "Reward"],
];

function headFact(run, metric, name) {
  const value = run.summary.latest[metric];
  const reason = run.absentReason(metric);
  const absent = reason !== null && !isNumber(value);
  return el(
    "div",
    {},
    el("dt", { text: name }),
    absent
      ? el("dd", { class: "compare-absent", title: reason, text: "not measured" })
      : el("dd", { text: formatNumber(value) }),
  );
}

const headAlerts = (summary) =>
  el("div", {}, el("dt", { text: "Open alerts" }), el("dd", {}, alertCounts(summary.open_alerts)));

function lastSeen(summary) {
  const text = lastSeenWords(summary, Date.now());
  return text === "" ? null : el("span", { class: "last-seen", text });
}

function scorerLine({ summary, scope }) {
  const parts =
    summary.scorer === null
      ? [el("span", { text: "Not scored yet" })]
      : scorerParts(summary.scorer, summary.samplings?.[scope] ?? null);
  return el("p", { class: "scorer", data: { testid: "compare-scorer" } }, parts);
}

function runHead(run, i) {
  const { summary } = run;
  const key = el("span", { class: "legend-key legend-dot", "aria-hidden": "true" });
  key.style.color = `var(--${token(i)})`;
  return el(
    "article",
    { class: "card compare-head", data: { testid: "compare-head", runId: run.runId } },
    el(
      "header",
      {},
      key,
      el("a", { class: "run-link", href: runHref(run.runId), text: summary.name }),
      stateMark(summary.state),
    ),
    el(
      "p",
      { class: "compare-regime" },
      regimeBadge(summary.regime?.regime),
      el("span", { class: "faint", text: `step ${formatStep(summary.last_step)}` }),
      lastSeen(summary),
    ),
    summary.regime ? el("p", { class: "compare-reason", text: summary.regime.reason }) : null,
    scorerLine(run),
    el(
      "dl",
      { class: "compare-facts" },
      HEAD_FACTS.map(([metric, name]) => headFact(run, metric, name)),
      headAlerts(summary),
    ),
  );
}

const legendOf = (runs) =>
  runs.map((run, i) => ({ name: run.summary.name, colourToken: token(i), shape: "dot" }));

function updateQuadrant(card, runs) {
  const scored = runs.filter((run) => run.trajectory.points.length > 0);
  if (scored.length === 0) {
    card.update({ reason: "None of these runs has been scored yet." });
    return;
  }
  const placed = scored.filter((run) => run.trajectory.points.some(hasPlace));
  const onlyVertical = {
    name: "diversity is unknown: only the vertical axis, over the steps",
    shape: "none",
  };
  card.update({
    legendItems: placed.length > 0 ? legendOf(runs) : [...legendOf(runs), onlyVertical],
    label: `Trajectories of ${scored.map((run) => run.summary.name).join(", ")}.`,
    build: ({ compact, ...size }) => {
      const theme = chartTheme();
      const drawn = runs.map((run, i) => ({
        name: run.summary.name,
        trajectory: run.trajectory,
        colour: theme.series[i],
      }));
      const draw = placed.length > 0 ? overlayFigure : dependenceOverlay;
      return draw({ theme, compact, size, revision: "compare", runs: drawn });
    },
  });
}

function updateOverlay(card, figure, runs) {
  const measured = runs
    .map((run, i) => ({ run, i, series: run.series[figure.scope][figure.metric] }))
    .filter(({ series }) => !isEmpty(series));
  if (measured.length === 0) {
    const reasons = new Set(runs.map((run) => run.absentReason(figure.metric)));
    const [reason] = reasons.size === 1 ? reasons : [null];
    card.update({ reason: reason === null ? "Not measured in these runs." : `Not measured: ${reason}.` });
    return;
  }
  const level = figure.reference
    ? sharedReference(runs.map((run) => run.series[figure.scope][figure.reference]))
    : null;
  card.update({
    legendItems: legendOf(runs),
    label: `${figure.title}: ${measured.map(({ run }) => `${run.summary.name} ${formatNumber(run.newest(figure.scope, figure.metric).value)}`).join(", ")}`,
    build: ({ compact }) => {
      const theme = chartTheme();
      return lineFigure({
        theme,
        compact,
        revision: "compare",
        yRange: figure.yRange,
        share: figure.share,
        stepRange: stepRange(measured.map(({ series }) => series)),
        references:
          level === null
            ? []
            : [{ value: level, name: figure.reference === "mi_ceiling" ? "ceiling" : "chance" }],
        lines: measured.map(({ run, i, series }) => ({
          name: shortName(run.summary.name, NAME_LENGTH),
          series,
          colour: theme.series[i],
          band: figure.band,
        })),
      });
    },
  });
}

/** How a run was scored; see `scoringDifference`. */
const scoringOf = ({ summary, scope, step }) => ({
  scorer: summary.scorer,
  scope,
  sampling: summary.samplings?.[scope] ?? null,
  temperature: step?.evaluation?.temperature ?? null,
  template: step?.evaluation?.template || null,
});

function showScoring(host, card, runs) {
  const rows = scoringDifference(runs.map(scoringOf));
  card.root.hidden = rows.length === 0;
  showRows(card.host, rows, runs);
  rerender(host, JSON.stringify(rows), () =>
    rows.length === 0
      ? []
      : [
          notice(
            "warn",
            el("p", {
              text: `These runs were not scored alike (${rows.map(({ key }) => key).join(", ")}). How each of them goes can be read, but their levels may differ for that alone.`,
            }),
          ),
        ],
  );
}

function showSettings(card, runs) {
  card.root.hidden = runs.length < 2;
  showRows(card.host, configDifference(runs.map((run) => run.summary.config ?? {})), runs);
}

function differenceCard(title, testid) {
  const host = scrollRegion(title);
  const root = el(
    "section",
    { class: "card", data: { testid } },
    el("header", { class: "figure-head" }, el("h3", { class: "figure-title", text: title })),
    host,
  );
  return { root, host };
}

function showRows(host, rows, runs) {
  rerender(host, JSON.stringify([rows, runs.map((run) => run.summary.name)]), () => {
    if (rows.length === 0) return [el("p", { class: "faint", text: "The settings are the same." })];
    const names = runs.map(({ summary }) =>
      el("th", { scope: "col", title: summary.name, text: shortName(summary.name, NAME_LENGTH) }),
    );
    const body = rows.map(({ key, values }) =>
      el(
        "tr",
        {},
        el("th", { scope: "row", class: "mono", text: key }),
        values.map((value) => el("td", { class: "cell-setting", text: formatSetting(value) })),
      ),
    );
    return [
      el(
        "table",
        { class: "data" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col", text: "Setting" }), names)),
        el("tbody", {}, body),
      ),
    ];
  });
}
