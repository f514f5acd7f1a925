/** Screen: what is watched for. Rules of one's own, those that come with the program, and their file. */

import { getDetectors, getProjects, getRules } from "../api.js";
import { Refresher } from "../refresh.js";
import { alertsHref } from "../routes.js";
import { notice } from "./components.js";
import { el } from "./dom.js";
import { detectorsPart } from "./rules_detectors.js";
import { ruleFilePart } from "./rules_file.js";
import { ownRulesPart } from "./rules_own.js";

/** The stream usually opens sooner and asks for the first load itself. */
const FIRST_LOAD_MS = 300;

/** Mounts the screen; returns what the app calls on events, on reconnects and at the end. */
export function mountRules(host, { route, shell, metricsInfo, navigate }) {
  const view = { project: route.project, rules: [], detectors: [], projects: [] };
  const reload = () => refresher.requestNow("rules");
  const own = ownRulesPart({ metricsInfo, reload });
  const detectors = detectorsPart({ metricsInfo, reload, navigate });
  const file = ruleFilePart({ reload });
  const problem = el("div");
  const loading = el("p", { class: "loading", text: "Loading…" });
  const body = el("div", { hidden: true }, own.root, detectors.root, file.root);
  host.replaceChildren(
    el("div", { class: "rules-page", data: { testid: "rules-page" } }, pageHead(), problem, loading, body),
  );
  shell.setTitle("Alert rules", 0);
  const show = () => {
    own.update(view);
    detectors.update(view);
  };
  const refresher = new Refresher(
    async () => {
      const [rules, found, projects] = await Promise.all([getRules(), getDetectors(), getProjects()]);
      Object.assign(view, { rules, detectors: found, projects: projects.map(({ name }) => name) });
      problem.replaceChildren();
      loading.hidden = true;
      body.hidden = false;
      show();
    },
    {
      delayMs: 1_000,
      onError: (error) => {
        loading.hidden = true;
        problem.replaceChildren(
          notice("bad", el("p", { text: `The rules could not be loaded: ${error.message}. Trying again.` })),
        );
      },
    },
  );
  refresher.request("rules", FIRST_LOAD_MS);
  return {
    /** Takes another project without a new page; false for any other address. */
    follow(next) {
      if (next.screen !== "rules") return false;
      view.project = next.project;
      show();
      return true;
    },
    onOpen: reload,
    onEvent: (name) => {
      if (name === "alert_change") refresher.request("rules");
    },
    destroy: () => refresher.stop(),
  };
}

function pageHead() {
  return el(
    "div",
    {},
    el(
      "nav",
      { class: "crumbs", "aria-label": "Breadcrumb" },
      el("a", { href: alertsHref(), text: "Alerts" }),
      el("span", { "aria-hidden": "true", text: "/" }),
    ),
    el(
      "div",
      { class: "page-head" },
      el(
        "div",
        {},
        el("h1", { text: "Alert rules" }),
        el("p", { class: "page-sub", text: "What is watched for, and how rare false alarms are" }),
      ),
    ),
  );
}
