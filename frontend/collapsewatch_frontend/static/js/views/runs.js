/** Screen: the runs of a project or of all, kept fresh run by run. */

import { getProjects, getRunRows, getSparklines } from "../api.js";
import { urgentCount } from "../alerts.js";
import { Refresher } from "../refresh.js";
import { runsHref } from "../routes.js";
import { groupKey, listLines, matchingRuns, mergedRows, questionOf, sortedRuns } from "../runs_view.js";
import { el } from "./dom.js";
import { runsBar } from "./runs_bar.js";
import { runsEmpty, runsProblem } from "./runs_empty.js";
import { runsHead } from "./runs_head.js";
import { runsTable } from "./runs_table.js";

const AGE_TICK_MS = 5_000;
/** The stream usually opens sooner and asks for the first load itself. */
const FIRST_LOAD_MS = 300;
/** Of more runs at once the whole list is asked for. */
const MOST_AT_ONCE = 100;
const ALL = "every run";
/** Events after which a line may say something else. */
const NEWS = new Set(["run", "batch", "metrics", "alert", "alert_change"]);

/** Mounts the screen; returns what the app calls on events, on reconnects and at the end. */
export function mountRuns(host, { route, shell, navigate }) {
  const state = {
    view: choiceOf(route),
    rows: [],
    projects: [],
    configKeys: [],
    counts: { active: 0, archived: 0 },
    loaded: false,
    picked: new Set(),
  };
  const page = buildPage(state, { navigate, reload: () => refresher.requestNow(ALL), show: () => show() });
  host.replaceChildren(page.root);
  const show = () => page.show(shell);
  const refresher = new Refresher((wishes) => load(state, wishes, { show, problem: page.problem }), {
    delayMs: 800,
    onError: (error) => page.problem.show(error, state.loaded),
  });
  const tick = setInterval(() => page.table.tick(), AGE_TICK_MS);
  refresher.request(ALL, FIRST_LOAD_MS);
  return {
    /** Takes another view of the list without a new page; false for any other address. */
    follow(next) {
      if (next.screen !== "runs") return false;
      const before = state.view;
      state.view = choiceOf(next);
      if (asksAnew(before, state.view)) {
        state.picked.clear();
        refresher.requestNow(ALL);
      }
      show();
      return true;
    },
    onOpen: () => refresher.requestNow(ALL),
    onEvent(name, event) {
      if (NEWS.has(name) && event.run_id) refresher.request(event.run_id);
    },
    destroy() {
      refresher.stop();
      page.destroy();
      clearInterval(tick);
    },
  };
}

function choiceOf({ screen: _, ...view }) {
  return view;
}

/** Whether the server has to be asked for other runs, or for other values of them. */
const asksAnew = (before, after) =>
  before.project !== after.project ||
  before.archived !== after.archived ||
  groupKey(before) !== groupKey(after);

async function load(state, wishes, { show, problem }) {
  const asked = state.view;
  const { limit, ...choice } = questionOf(asked);
  const runIds = wishes.has(ALL) || wishes.size > MOST_AT_ONCE ? [] : [...wishes];
  const [answer, projects] = await Promise.all([
    getRunRows({ ...choice, ...(runIds.length > 0 ? { runIds } : { limit }) }),
    runIds.length > 0 ? state.projects : getProjects(),
  ]);
  // An answer to what is no longer asked must not be shown as one to what is.
  if (asksAnew(asked, state.view)) return;
  state.rows = runIds.length > 0 ? mergedRows(state.rows, runIds, answer.rows) : answer.rows;
  if (runIds.length === 0) state.configKeys = answer.config_keys;
  state.counts = { active: answer.num_active, archived: answer.num_archived };
  state.projects = projects;
  state.loaded = true;
  problem.clear();
  show();
}

function buildPage(state, { navigate, reload, show }) {
  const change = (part) => navigate({ ...state.view, ...part });
  /** While a search is typed, the address follows without a step of the history for each letter. */
  const retype = (search) => {
    state.view = { ...state.view, search };
    history.replaceState(null, "", runsHref(state.view));
    show();
  };
  const said = el("p", { class: "runs-said", role: "status", data: { testid: "runs-said" } });
  const onDone = (words) => {
    said.textContent = words;
    reload();
  };
  const head = runsHead({ change, retype });
  const bar = runsBar({ picked: state.picked, show, onDone });
  const table = runsTable({
    picked: state.picked,
    change,
    onPick: show,
    onDone,
    loadSparklines: getSparklines,
  });
  const problem = runsProblem({ retry: reload });
  const empty = runsEmpty();
  const loading = el("p", { class: "loading", text: "Loading…" });
  const root = el(
    "div",
    { class: "runs-page", data: { testid: "runs-page" } },
    head.root,
    problem.root,
    bar.root,
    said,
    loading,
    table.root,
    empty.root,
  );
  const parts = { head, bar, table, problem, empty, loading };
  return {
    root,
    table,
    problem,
    show: (shell) => showPage(state, parts, shell),
    destroy: () => destroy(parts),
  };
}

function destroy({ head, table }) {
  head.stop();
  table.destroy();
}

/** Nothing is said of the runs, not even that there are none, before they were loaded. */
function showPage(state, { head, bar, table, empty, loading }, shell) {
  head.update(state);
  if (!state.loaded) return;
  const { view, rows, picked } = state;
  const shown = sortedRuns(matchingRuns(rows, view), view.sort);
  const present = new Set(shown.map((run) => run.run_id));
  for (const id of picked) if (!present.has(id)) picked.delete(id);
  loading.remove();
  bar.update({ view, shown });
  table.update({ view, lines: listLines(shown, view.group) });
  empty.update({ view, numShown: shown.length, counts: state.counts });
  head.tell({ view, shown, rows, counts: state.counts });
  shell.setTitle(
    "",
    rows.reduce((sum, run) => sum + urgentCount(run.open_alerts), 0),
  );
}
