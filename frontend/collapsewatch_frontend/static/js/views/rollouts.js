/** Screen: the rollouts of a run, one of them as it can be read. */

import * as api from "../api.js";
import { formatStep } from "../format.js";
import { Refresher } from "../refresh.js";
import { actionOfKey, MARKS, neighbour } from "../rollouts.js";
import { RolloutData } from "../rollout_data.js";
import { rolloutsHref } from "../routes.js";
import { notice } from "./components.js";
import { el, rerender } from "./dom.js";
import { notFound } from "./not_found.js";
import { rolloutHead } from "./rollout_head.js";
import { rolloutList } from "./rollout_list.js";
import { rolloutReader } from "./rollout_reader.js";
import { rolloutTemplate } from "./rollout_template.js";

/** Mounts the screen; returns what the app calls on events, on reconnects and at the end. */
export function mountRollouts(host, { route, shell, navigate }) {
  const view = { choice: route, data: new RolloutData(api, route.runId, () => show()) };
  const hrefOf = (change) => rolloutsHref(route.runId, { ...view.choice, ...change });
  /** `isPlace` for what one goes back to; moving from one rollout to the next leaves no trail. */
  const goTo = (change, { isPlace = false } = {}) => {
    if (isPlace) navigate(hrefOf(change));
    else window.location.replace(hrefOf(change));
    // The browser tells of a new address later; the next key may come first and counts from here.
    if (typeof change.index === "number") view.choice = { ...view.choice, ...change };
  };
  const page = buildPage(view, { goTo, hrefOf });
  host.replaceChildren(page.root);
  const show = () => {
    const { list, run } = view.data;
    if (list.error !== null && list.error.status === 404 && list.error.code === "run_not_found") {
      shell.setTitle("Not found", 0);
      host.replaceChildren(notFound(`There is no run with the id “${route.runId}”.`));
      return;
    }
    settle(view, hrefOf);
    const name = run.value?.name ?? route.runId;
    const at = view.choice.step === null ? "" : ` of step ${formatStep(view.choice.step)}`;
    shell.setTitle(`Rollouts${at}, ${name}`, 0);
    page.update();
  };
  const load = (options) => view.data.show(view.choice, options);
  const refresher = new Refresher(() => load({ again: true }), { delayMs: 1_000 });
  let wasOpen = false;
  const onKey = (event) => press(event, view, page, goTo);
  document.addEventListener("keydown", onKey);
  load();
  return {
    /** The first opening finds everything just loaded; a later one comes after a loss of the connection. */
    onOpen() {
      if (wasOpen) refresher.requestNow("rollouts");
      wasOpen = true;
    },
    /** Takes another rollout, step or choice of the same run without a new page. */
    follow(next) {
      if (next.screen !== "rollouts" || next.runId !== route.runId) return false;
      view.choice = next;
      load();
      show();
      return true;
    },
    onEvent(name, event) {
      if (event.run_id !== route.runId) return;
      if (name === "batch" && view.data.list.value !== null) view.data.sawBatch(event.step);
      // A step that is sent again has other rollouts, a scored one a template and log-probs.
      const isShown = event.step === view.choice.step || view.choice.step === null;
      if ((name === "batch" || name === "metrics") && isShown) refresher.request("rollouts");
    },
    destroy() {
      document.removeEventListener("keydown", onKey);
      refresher.stop();
      view.data.stop();
    },
  };
}

/** Writes into the address which step and rollout are shown where it left the choice to the page. */
function settle(view, hrefOf) {
  const list = view.data.list.value;
  if (list === null) return;
  const { step, index } = view.choice;
  const first = list.rollouts[0]?.index ?? null;
  if (step !== null && (index !== null || first === null)) return;
  window.history.replaceState(null, "", hrefOf({ step: list.step, index: index ?? first }));
  view.choice = { ...view.choice, step: list.step, index: index ?? first };
  view.data.settle(view.choice);
  view.data.show(view.choice);
}

function buildPage(view, { goTo, hrefOf }) {
  const problem = el("div");
  const head = rolloutHead({ goTo });
  const list = rolloutList({
    goTo,
    hrefOf,
    more: () => view.data.more(view.choice),
    searchOn: () => view.data.searchOn(view.choice),
  });
  const reader = rolloutReader({ goTo, move: (direction) => move(view, goTo, direction) });
  const template = rolloutTemplate({ goTo });
  const root = el(
    "div",
    { class: "rollouts-page", data: { testid: "rollouts-page" } },
    head.root,
    problem,
    el("div", { class: "rollouts-grid" }, list.root, reader.root, template.root),
  );
  return {
    root,
    focusSearch: () => head.focusSearch(),
    update() {
      rerender(problem, JSON.stringify([view.choice.step, view.data.list.error?.message]), () => [
        listProblem(view, hrefOf),
      ]);
      for (const part of [head, list, reader, template]) part.update(view);
    },
  };
}

/** What is wrong with the step, and what to do next. */
function listProblem(view, hrefOf) {
  const { error } = view.data.list;
  if (error === null) return null;
  const isEmpty = error.code === "step_not_found" && view.choice.step === null;
  if (isEmpty) {
    return el(
      "p",
      { class: "empty", data: { testid: "no-rollouts" } },
      "No rollouts have arrived yet. They appear here as soon as the trainer calls run.log_rollouts(…).",
    );
  }
  return notice(
    "bad",
    el("p", { text: `The rollouts could not be read: ${error.message}.` }),
    el("a", {
      class: "button button-small",
      href: hrefOf({ step: null, index: null, attempt: "", group: "" }),
      text: "Go to the last step",
    }),
  );
}

/** What one moves through: the hits while a text is searched for, else the rollouts of the step. */
function move(view, goTo, direction) {
  const { choice, data } = view;
  if (choice.text.trim() !== "") {
    const isShown = (hit) => hit.step === choice.step && hit.index === choice.index;
    const hit = neighbour(data.search.hits, isShown, direction);
    if (hit !== null) goTo({ step: hit.step, index: hit.index, group: "" });
    return;
  }
  const at = ({ index }) => index === choice.index;
  const row = neighbour(data.list.value?.rollouts ?? [], at, direction);
  if (row !== null) {
    goTo({ index: row.index });
    return;
  }
  const list = data.list.value;
  if (direction < 0 || list === null || list.rollouts.length >= list.num_found) return;
  data.more(choice).then(() => {
    const next = neighbour(data.list.value?.rollouts ?? [], at, direction);
    if (next !== null && view.choice === choice) goTo({ index: next.index });
  });
}

function press(event, view, page, goTo) {
  const { target } = event;
  const isTyping =
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName));
  const action = actionOfKey({
    key: event.key,
    ctrlKey: event.ctrlKey,
    metaKey: event.metaKey,
    altKey: event.altKey,
    isTyping,
  });
  if (action === null || document.querySelector("dialog[open]") !== null) return;
  event.preventDefault();
  const list = view.data.list.value;
  const step = action === "next step" ? list?.next_step : list?.previous_step;
  if (action === "next" || action === "previous") move(view, goTo, action === "next" ? 1 : -1);
  else if (action === "search") page.focusSearch();
  else if (action === "mark")
    goTo({ mark: MARKS[(MARKS.findIndex(({ id }) => id === view.choice.mark) + 1) % MARKS.length].id });
  else if (step !== null && step !== undefined) goTo({ step, index: null });
}
