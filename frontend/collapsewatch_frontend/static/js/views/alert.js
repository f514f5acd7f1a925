/** Screen: one alert with its evidence and its history. */

import { may } from "../access.js";
import { getAlert, getChannels, getDeliveries } from "../api.js";
import { itemDeliveries } from "../alert_detail.js";
import { severityInfo } from "../alerts.js";
import { standingWords, alertStateInfo, itemStepWords } from "../inbox.js";
import { formatAge, humanise, plural } from "../format.js";
import { Refresher } from "../refresh.js";
import { alertsHref, runHref } from "../routes.js";
import { alertMark, notice, prose, severityBadge } from "./components.js";
import { el, rerender, setText } from "./dom.js";
import { actionButtons, actionsOnAll } from "./handle_dialog.js";
import { notFound } from "./not_found.js";
import { evidencePart } from "./alert_evidence.js";
import { figuresPart } from "./alert_figures.js";
import { historyPart } from "./alert_history.js";
import { tracesPart } from "./alert_traces.js";
import { wordsPart } from "./alert_words.js";

const TICK_MS = 5_000;
/** The stream usually opens sooner and asks for the first load itself. */
const FIRST_LOAD_MS = 300;

/** Mounts the screen; returns what the app calls on events, on reconnects and at the end. */
export function mountAlert(host, { route, shell, metricsInfo }) {
  const page = buildPage({ metricsInfo, reload: () => refresher.requestNow("alert") });
  host.replaceChildren(page.root);
  let detail = null;
  const refresher = new Refresher(
    async () => {
      const found = await getAlert(route.alertId);
      detail = { ...found, deliveries: await deliveriesOf(found) };
      page.problem.replaceChildren();
      page.update(detail);
      shell.setTitle(detail.title, 0);
    },
    {
      onError: (error) => {
        if (error.status === 404) {
          shell.setTitle("Not found", 0);
          host.replaceChildren(notFound(`There is no alert with the number ${route.alertId}.`));
          return "give up";
        }
        page.loading.hidden = true;
        page.problem.replaceChildren(
          notice("bad", el("p", { text: `The alert could not be loaded: ${error.message}. Trying again.` })),
        );
        return "go on";
      },
    },
  );
  const tick = setInterval(() => detail !== null && page.tick(detail), TICK_MS);
  refresher.request("alert", FIRST_LOAD_MS);
  return {
    follow: (next) => next.screen === "alert" && next.alertId === route.alertId,
    onOpen: () => refresher.requestNow("alert"),
    onEvent: (name, event) => {
      if (detail === null) return;
      const isOwn = name === "alert_change" && event.thread_id === detail.thread_id;
      // Late steps add points to the figures.
      if (isOwn || (name === "metrics" && event.run_id === detail.run_id)) refresher.request("alert", 1_000);
    },
    destroy() {
      refresher.stop();
      clearInterval(tick);
      page.destroy();
    },
  };
}

/** The history stands without what was sent, where that cannot be read. */
async function deliveriesOf(detail) {
  if (!may("channel.edit", detail.project)) return [];
  try {
    return await itemDeliveries({ getChannels, getDeliveries }, detail);
  } catch (error) {
    console.warn("what channels were told could not be read", error);
    return [];
  }
}

function buildPage({ metricsInfo, reload }) {
  const head = headPart({ reload });
  const parts = [
    wordsPart({ metricsInfo }),
    figuresPart({ metricsInfo }),
    evidencePart(),
    tracesPart(),
    historyPart(),
  ];
  const problem = el("div");
  const loading = el("p", { class: "loading", text: "Loading…" });
  const body = el(
    "div",
    { class: "alert-body", hidden: true },
    head.root,
    parts.map((part) => part.root),
  );
  const root = el("div", { class: "alert-page", data: { testid: "alert-page" } }, problem, loading, body);
  return {
    root,
    problem,
    loading,
    tick: (detail) => [head, ...parts].forEach((part) => part.tick?.(detail)),
    update(detail) {
      loading.hidden = true;
      body.hidden = false;
      for (const part of [head, ...parts]) part.update(detail);
    },
    destroy: () => parts.forEach((part) => part.destroy?.()),
  };
}

function headPart({ reload }) {
  const title = el("h1", { data: { testid: "alert-title" } });
  const badge = el("span");
  const state = el("span", { data: { testid: "alert-standing" } });
  const facts = el("p", { class: "facts-line" });
  const actions = el("div", { class: "controls head-buttons" });
  const said = el("p", { class: "inbox-said", role: "status" });
  const root = el(
    "div",
    {},
    el(
      "nav",
      { class: "crumbs", "aria-label": "Breadcrumb" },
      el("a", { href: alertsHref(), text: "Alerts" }),
    ),
    el(
      "div",
      { class: "page-head" },
      el("div", { class: "run-head-text" }, title, el("p", { class: "facts-line" }, badge, state), facts),
      actions,
    ),
    said,
  );
  const showState = (detail) => {
    const words = standingWords(detail, Date.now());
    rerender(state, `${detail.state} ${words}`, () => [
      alertMark({ ...alertStateInfo(detail.state), name: words }, detail.state),
    ]);
    rerender(facts, JSON.stringify([factsOf(detail), formatAge(detail.opened_at, Date.now())]), () =>
      factParts(detail),
    );
  };
  return {
    root,
    tick: showState,
    update(detail) {
      setText(title, detail.title);
      title.setAttribute("aria-label", `${severityInfo(detail.severity).name}: ${detail.title}`);
      rerender(badge, detail.severity, () => [severityBadge(detail.severity)]);
      showState(detail);
      const choices = actionsOnAll([detail]);
      rerender(actions, JSON.stringify([detail.alert_id, choices.map(({ kind }) => kind)]), () =>
        actionButtons(
          choices.map(({ kind }) => ({ kind, items: () => [detail] })),
          {
            small: false,
            onDone: (words) => {
              setText(said, words);
              reload();
            },
          },
        ),
      );
    },
  };
}

const factsOf = (detail) => [
  detail.run_id,
  detail.run_name,
  detail.project,
  detail.rule,
  detail.scope,
  detail.opened_step,
];

function factParts(detail) {
  const about =
    detail.run_id === null
      ? el("span", { text: "about the service" })
      : el("a", {
          href: runHref(detail.run_id, { scope: runScope(detail) }),
          data: { testid: "alert-run", focusKey: "run" },
          text: detail.run_name,
        });
  const grew =
    detail.num_alerts > 1
      ? `grew graver ${detail.num_alerts === 2 ? "once" : plural(detail.num_alerts - 1, "time")}`
      : "";
  const words = [
    detail.project ?? "",
    itemStepWords(detail),
    humanise(detail.scope),
    `opened ${formatAge(detail.opened_at, Date.now())}`,
    grew,
  ];
  return [
    about,
    words.filter((text) => text !== "").map((text) => el("span", { text })),
    el("span", {}, el("span", { class: "faint", text: "rule " }), prose(`\`${detail.rule}\``)),
  ];
}

const runScope = ({ scope }) => (scope === "batch" || scope === "trainer" ? "" : scope);
