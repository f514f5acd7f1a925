/** Screen: all runs, newest first. */

import { getProjects, getRuns } from "../api.js";
import { urgentCount } from "../alerts.js";
import { formatAge, formatNumber, formatStep, isNumber, plural } from "../format.js";
import { Refresher } from "../refresh.js";
import { compareHref, runHref } from "../routes.js";
import { isSilent, lastSeenWords, stateCounts } from "../run_states.js";
import { alertCounts, notice, regimeBadge, sparkline, stateMark } from "./components.js";
import { el, KeyedList, rerender, setAttribute, setText } from "./dom.js";
import { firstRunGuide } from "./first_run.js";
import { icon } from "./icons.js";

const AGE_TICK_MS = 5_000;
/** The stream usually opens sooner and asks for the first load itself. */
const FIRST_LOAD_MS = 300;

/** Mounts the screen; returns what the app calls on events, on reconnects and at the end. */
export function mountRuns(host, { route, shell, navigate }) {
  const view = { project: route.project, search: route.search, runs: [], loaded: false, picked: new Set() };
  const parts = buildPage(view, { navigate, show: () => show(view, parts, shell) });
  host.replaceChildren(parts.root);
  const refresher = new Refresher(
    async () => {
      const [runs, projects] = await Promise.all([getRuns(view.project), getProjects()]);
      view.runs = runs;
      view.loaded = true;
      showProjects(parts.project, projects, view.project);
      parts.problem.replaceChildren();
      show(view, parts, shell);
    },
    {
      delayMs: 800,
      onError: (error) =>
        parts.problem.replaceChildren(
          notice("bad", el("p", { text: `The list could not be loaded: ${error.message}. Trying again.` })),
        ),
    },
  );
  const tick = setInterval(() => show(view, parts, shell), AGE_TICK_MS);
  refresher.request("runs", FIRST_LOAD_MS);
  return {
    /** Takes another project without a new page; false for any other address. */
    follow(next) {
      if (next.screen !== "runs") return false;
      view.project = next.project;
      refresher.requestNow("runs");
      return true;
    },
    onOpen: () => refresher.requestNow("runs"),
    onEvent: () => refresher.request("runs"),
    destroy() {
      refresher.stop();
      clearInterval(tick);
    },
  };
}

function buildPage(view, { navigate, show }) {
  const project = el("select", {
    id: "project",
    data: { testid: "project-picker" },
    on: { change: () => navigate({ project: project.value, search: view.search }) },
  });
  const search = el("input", {
    id: "search",
    type: "search",
    placeholder: "Search by name or tag",
    autocomplete: "off",
    data: { testid: "run-search" },
    on: {
      input: () => {
        view.search = search.value;
        show();
      },
    },
  });
  search.value = view.search;
  showProjects(project, [], view.project);
  const summary = el("p", { class: "page-sub", role: "status" });
  const problem = el("div");
  const compare = el("a", { class: "button", hidden: true, data: { testid: "compare-button" } });
  const body = el("tbody", { data: { testid: "run-list" } });
  const table = el(
    "table",
    { class: "runs", hidden: true },
    el("caption", { class: "visually-hidden", text: "Runs, newest first" }),
    tableHead(),
    body,
  );
  const empty = el("div");
  const rows = new KeyedList(body, {
    keyOf: (run) => run.run_id,
    create: (run) => createRow(run, view, show),
  });
  const root = el(
    "div",
    { class: "runs-page" },
    el(
      "div",
      { class: "page-head" },
      el("div", {}, el("h1", { text: "Runs" }), summary),
      el(
        "div",
        { class: "controls" },
        compare,
        el(
          "label",
          { class: "control", for: "project" },
          el("span", { class: "control-label", text: "Project" }),
          project,
        ),
        el(
          "label",
          { class: "control control-wide", for: "search" },
          el("span", { class: "visually-hidden", text: "Search runs" }),
          search,
        ),
      ),
    ),
    problem,
    table,
    empty,
  );
  return { root, project, summary, problem, compare, table, rows, empty };
}

function tableHead() {
  const heads = [
    "",
    "Run",
    "Regime",
    "Retrieval skill",
    "Retrieval accuracy",
    "Reward",
    "Step",
    "Updated",
    "Open alerts",
  ];
  return el(
    "thead",
    {},
    el(
      "tr",
      {},
      heads.map((text, i) =>
        i === 0
          ? el("td", { class: "cell-pick" })
          : el("th", { scope: "col", class: i >= 4 && i <= 7 ? "numeric" : null, text }),
      ),
    ),
  );
}

function showProjects(select, projects, chosen) {
  rerender(select, JSON.stringify([projects, chosen]), () => [
    el("option", { value: "", text: "All projects", selected: chosen === "" }),
    projects.map((project) =>
      el("option", {
        value: project.name,
        text: `${project.name} (${project.num_runs})`,
        selected: project.name === chosen,
      }),
    ),
  ]);
}

/** Nothing is said of the runs, not even that there are none, before they were loaded. */
function show(view, parts, shell) {
  if (!view.loaded) return;
  const wanted = view.search.trim().toLowerCase();
  const shown = view.runs.filter((run) =>
    [run.name, run.project, run.run_id, ...run.tags].some((text) => text.toLowerCase().includes(wanted)),
  );
  parts.rows.update(shown);
  parts.table.hidden = shown.length === 0;
  const numUrgent = view.runs.reduce((sum, run) => sum + urgentCount(run.open_alerts), 0);
  setText(
    parts.summary,
    view.runs.length === 0
      ? ""
      : [plural(shown.length, "run"), ...stateCounts(view.runs), plural(numUrgent, "open alert")].join(" · "),
  );
  shell.setTitle("", numUrgent);
  showCompare(view, parts.compare);
  const state = view.runs.length === 0 ? "none" : shown.length === 0 ? "filtered" : "some";
  rerender(parts.empty, `${state} ${wanted}`, () => {
    if (state === "none") return [firstRunGuide(view.project)];
    if (state === "filtered") return [el("p", { class: "empty", text: `No run matches “${view.search}”.` })];
    return [];
  });
}

function showCompare(view, link) {
  const present = new Set(view.runs.map((run) => run.run_id));
  const picked = [...view.picked].filter((id) => present.has(id));
  link.hidden = picked.length < 2;
  setAttribute(link, "href", compareHref(picked));
  rerender(link, String(picked.length), () => [
    icon("compare"),
    el("span", { text: `Compare ${picked.length} runs` }),
  ]);
}

function createRow(run, view, show) {
  const pick = el("input", {
    type: "checkbox",
    "aria-label": `Select ${run.name} for comparison`,
    on: {
      change: () => {
        if (pick.checked) view.picked.add(run.run_id);
        else view.picked.delete(run.run_id);
        show();
      },
    },
  });
  const cells = Object.fromEntries(
    ["regime", "skill", "accuracy", "reward", "step", "age", "alerts"].map((name) => [
      name,
      el("td", { class: `cell-${name}`, data: { label: CELL_LABELS[name] } }),
    ]),
  );
  const meta = el("span", { class: "run-meta" });
  const name = el(
    "th",
    { scope: "row", class: "cell-run" },
    el("a", { class: "run-link", href: runHref(run.run_id), text: run.name }),
    meta,
  );
  const root = el(
    "tr",
    { data: { testid: "run-row", runId: run.run_id } },
    el("td", { class: "cell-pick" }, el("label", { class: "pick" }, pick)),
    name,
    Object.values(cells),
  );
  return { root, update: (latest) => updateRow({ root, meta, cells }, latest) };
}

const CELL_LABELS = {
  regime: "Regime",
  skill: "Retrieval skill",
  accuracy: "Retrieval accuracy",
  reward: "Reward",
  step: "Step",
  age: "Updated",
  alerts: "Open alerts",
};

function updateRow({ root, meta, cells }, run) {
  const urgency =
    run.open_alerts?.critical > 0 ? "critical" : run.open_alerts?.warning > 0 ? "warning" : null;
  setAttribute(root, "data-urgency", urgency);
  const seen = lastSeenWords(run, Date.now());
  rerender(meta, JSON.stringify([run.state, seen, run.project, run.tags]), () => [
    stateMark(run.state),
    isSilent(run.state) ? el("span", { class: "last-seen", text: seen }) : null,
    el("span", { text: run.project }),
    run.tags.map((tag) => el("span", { class: "tag", text: tag })),
  ]);
  rerender(cells.regime, JSON.stringify(run.regime), () => [
    regimeBadge(run.regime?.regime),
    run.regime?.reason
      ? el("span", { class: "regime-reason", title: run.regime.reason, text: run.regime.reason })
      : null,
  ]);
  rerender(cells.skill, JSON.stringify(run.sparkline), () => [sparkline(run.sparkline)]);
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
