/** Screen: the inbox of alerts. */

import { may } from "../access.js";
import { getInbox, getProjects, getRules } from "../api.js";
import { PAGE_SIZE, countsWords, isNarrowed, loadInbox, ruleChoices } from "../inbox.js";
import { Refresher } from "../refresh.js";
import { alertsHref, channelsHref, rulesHref } from "../routes.js";
import { plural } from "../format.js";
import { notice } from "./components.js";
import { button } from "./forms.js";
import { el, rerender, setText } from "./dom.js";
import { actionButtons, actionsOnAll, mayHandle } from "./handle_dialog.js";
import { inboxFilters } from "./inbox_filters.js";
import { inboxList } from "./inbox_list.js";

const AGE_TICK_MS = 5_000;
/** The stream usually opens sooner and asks for the first load itself. */
const FIRST_LOAD_MS = 300;
const EMPTY_PAGE = { items: [], counts: {}, rules: [], hasMore: false };

/** Mounts the screen; returns what the app calls on events, on reconnects and at the end. */
export function mountAlerts(host, { route, shell, navigate }) {
  const view = {
    filters: route.filters,
    page: EMPTY_PAGE,
    projects: [],
    ownRules: [],
    loaded: false,
    wanted: PAGE_SIZE,
    picked: new Set(),
  };
  const page = buildPage(view, {
    navigate,
    reload: () => refresher.requestNow("alerts"),
    show: () => show(),
  });
  host.replaceChildren(page.root);
  const show = () => page.show(shell);
  const refresher = new Refresher(
    async () => {
      const asked = view.filters;
      const [found, projects, ownRules] = await Promise.all([
        loadInbox(getInbox, asked, view.wanted),
        getProjects(),
        getRules(),
      ]);
      // An answer to what is no longer asked must not be shown as one to what is.
      if (asked !== view.filters) return;
      view.page = found;
      view.ownRules = ownRules;
      view.projects = projects.map(({ name }) => name);
      view.loaded = true;
      page.problem.replaceChildren();
      show();
    },
    {
      onError: (error) => {
        page.loading.hidden = true;
        page.problem.replaceChildren(
          notice("bad", el("p", { text: `The alerts could not be loaded: ${error.message}. Trying again.` })),
        );
      },
    },
  );
  const tick = setInterval(() => page.list.tick(), AGE_TICK_MS);
  refresher.request("alerts", FIRST_LOAD_MS);
  return {
    /** Takes other filters without a new page; false for any other address. */
    follow(next) {
      if (next.screen !== "alerts") return false;
      view.filters = next.filters;
      view.wanted = PAGE_SIZE;
      view.picked.clear();
      refresher.requestNow("alerts");
      return true;
    },
    onOpen: () => refresher.requestNow("alerts"),
    onEvent: (name) => {
      if (name === "alert_change" || name === "alert") refresher.request("alerts");
    },
    destroy() {
      refresher.stop();
      page.filters.stop();
      clearInterval(tick);
    },
  };
}

function buildPage(view, { navigate, reload, show }) {
  const said = el("p", { class: "inbox-said", role: "status", data: { testid: "inbox-said" } });
  const onDone = (words) => {
    setText(said, words);
    view.picked.clear();
    reload();
  };
  const parts = {
    filters: inboxFilters({ filters: view.filters, onChange: (next) => navigate(alertsHref(next)) }),
    list: inboxList({ picked: view.picked, onPick: show, onDone }),
    bar: pickBar(view, { show, onDone }),
    sub: el("p", { class: "page-sub", data: { testid: "inbox-counts" } }),
    problem: el("div"),
    loading: el("p", { class: "loading", text: "Loading…" }),
    empty: el("div"),
    more: moreButton(view, reload),
    keys: el("p", { class: "faint inbox-keys", text: KEYS }),
  };
  const { filters, list, bar, sub, problem, loading, empty, more, keys } = parts;
  const root = el(
    "div",
    { class: "inbox-page", data: { testid: "inbox-page" } },
    pageHead(sub),
    filters.root,
    problem,
    bar.root,
    said,
    loading,
    list.root,
    empty,
    el("div", { class: "inbox-foot" }, more, keys),
  );
  return { root, ...parts, show: (shell) => showPage(view, parts, shell) };
}

const KEYS = "Keys in the list: ↑ ↓ move, x selects, a acknowledges, s snoozes, r resolves, o reopens.";

function moreButton(view, reload) {
  const more = button("Show older alerts", {
    data: { testid: "inbox-more" },
    on: {
      click: () => {
        view.wanted = view.page.items.length + PAGE_SIZE;
        reload();
      },
    },
  });
  more.hidden = true;
  return more;
}

/** Nothing is said of the alerts, not even that there are none, before they were loaded. */
function showPage(view, { filters, list, bar, sub, loading, empty, more, keys }, shell) {
  if (!view.loaded) return;
  const { items, counts, rules, hasMore } = view.page;
  loading.hidden = true;
  const present = new Set(items.map((item) => item.thread_id));
  for (const id of view.picked) if (!present.has(id)) view.picked.delete(id);
  filters.update(view.filters, {
    counts,
    rules: ruleChoices(rules, view.ownRules),
    projects: view.projects,
  });
  list.update(items);
  list.root.hidden = items.length === 0;
  keys.hidden = !items.some(mayHandle);
  more.hidden = !hasMore;
  bar.update();
  setText(sub, countsWords(counts));
  shell.setTitle("Alerts", counts.open ?? 0);
  rerender(empty, JSON.stringify([items.length === 0, view.filters, counts]), () =>
    items.length === 0 ? [emptyCard(view)] : [],
  );
}

function pageHead(sub) {
  return el(
    "div",
    { class: "page-head" },
    el("div", {}, el("h1", { text: "Alerts" }), sub),
    el(
      "div",
      { class: "controls head-buttons" },
      el("a", { class: "button", href: rulesHref(), text: "Rules", data: { testid: "to-rules" } }),
      may("channel.edit")
        ? el("a", { class: "button", href: channelsHref(), text: "Channels", data: { testid: "to-channels" } })
        : null,
    ),
  );
}

/** What may be done to those that are ticked; with none it only offers to tick all. */
function pickBar(view, { show, onDone }) {
  const all = el("input", { type: "checkbox", data: { testid: "pick-all" } });
  const words = el("span");
  const actions = el("span", { class: "inbox-bulk" });
  all.addEventListener("change", () => {
    view.picked.clear();
    if (all.checked) for (const item of view.page.items.filter(mayHandle)) view.picked.add(item.thread_id);
    show();
  });
  const root = el(
    "div",
    { class: "inbox-bar", data: { testid: "pick-bar" } },
    el("label", { class: "check" }, all, words),
    actions,
  );
  const pickedItems = () => view.page.items.filter((item) => view.picked.has(item.thread_id));
  return {
    root,
    update() {
      const items = pickedItems();
      const free = view.page.items.filter(mayHandle);
      root.hidden = free.length === 0;
      all.checked = items.length > 0 && items.length === free.length;
      all.indeterminate = items.length > 0 && !all.checked;
      setText(words, items.length === 0 ? "Select all" : `${plural(items.length, "alert")} selected`);
      const choices = actionsOnAll(items);
      rerender(actions, JSON.stringify(choices.map(({ kind }) => kind)), () =>
        actionButtons(
          choices.map(({ kind }) => ({
            kind,
            items: () => actionsOnAll(pickedItems()).find((choice) => choice.kind === kind)?.items ?? [],
          })),
          { onDone },
        ),
      );
    },
  };
}

/** Says what an empty list means and what to do next. */
function emptyCard({ filters, page }) {
  const total = Object.values(page.counts).reduce((sum, count) => sum + count, 0);
  const link = (href, text) => el("a", { class: "button", href, text });
  if (isNarrowed(filters)) {
    return emptyBox("No alert matches these filters.", [
      link(alertsHref({ status: filters.status }), "Take the filters away"),
    ]);
  }
  if (total > 0) {
    const words =
      filters.status === ""
        ? "Nothing needs you: every alert is resolved."
        : "There is no alert in this state.";
    return emptyBox(words, [link(alertsHref({ status: "all" }), "Show all alerts")]);
  }
  return emptyBox(
    "No alert has been opened yet. Runs are watched from their first scored steps on; see what is watched for, add rules of your own, or choose where you want to be told.",
    [
      link(rulesHref(), "See the rules"),
      may("channel.edit") ? link(channelsHref(), "Set up a channel") : null,
    ],
  );
}

const emptyBox = (text, actions) =>
  el(
    "div",
    { class: "card empty-card", data: { testid: "inbox-empty" } },
    el("p", { text }),
    el("div", { class: "controls" }, actions),
  );
