/** Screen: settings of the service. Workers and queue; it shows, and changes nothing. */

import { getService } from "../api.js";
import { openAlerts, urgentCount } from "../alerts.js";
import { Refresher } from "../refresh.js";
import { diskWords, serviceWords } from "../service.js";
import { settingsTabs } from "./settings_tabs.js";
import { notice } from "./components.js";
import { el, rerender, setText } from "./dom.js";
import { icon } from "./icons.js";
import { backlogTable } from "./settings_backlog.js";
import { queuePart, serviceAlertsPart } from "./settings_queue.js";
import { workersTable } from "./settings_workers.js";

/** The stream usually opens sooner and asks for the first load itself. */
const FIRST_LOAD_MS = 300;
/** Ages and heartbeats change without an event. */
const SLOW_MS = 5_000;

export function mountSettings(host, { shell }) {
  const page = buildPage();
  host.replaceChildren(page.root);
  shell.setTitle("Settings", 0);
  const refresher = new Refresher(
    async () => {
      const service = await getService();
      page.problem.replaceChildren();
      page.update(service);
      shell.setServiceAlerts(service.alerts);
      shell.setTitle("Settings", urgentCount(countOpen(service.alerts)));
    },
    {
      delayMs: 1000,
      onError: (error) => {
        page.loading.hidden = true;
        page.problem.replaceChildren(
          notice("bad", el("p", { text: `The service could not be read: ${error.message}. Trying again.` })),
        );
      },
    },
  );
  const timer = setInterval(() => refresher.request("service"), SLOW_MS);
  refresher.request("service", FIRST_LOAD_MS);
  return {
    follow: (next) => next.screen === "settings",
    onOpen: () => refresher.requestNow("service"),
    onEvent: () => refresher.request("service"),
    destroy() {
      refresher.stop();
      clearInterval(timer);
    },
  };
}

function countOpen(alerts) {
  const counts = {};
  for (const { severity } of openAlerts(alerts)) counts[severity] = (counts[severity] ?? 0) + 1;
  return counts;
}

function buildPage() {
  const words = el("p", { class: "page-sub", role: "status", data: { testid: "service-words" } });
  const disk = el("p", { class: "disk", data: { testid: "disk" } });
  const problem = el("div");
  const loading = el("p", { class: "loading", text: "Loading…" });
  const parts = [serviceAlertsPart(), queuePart(), workersTable(), backlogTable()];
  const body = el(
    "div",
    { hidden: true },
    parts.map((part) => part.root),
  );
  const root = el(
    "div",
    { class: "settings-page", data: { testid: "settings-page" } },
    el(
      "div",
      { class: "page-head" },
      el(
        "div",
        {},
        el("h1", { text: "Settings" }),
        el("p", { class: "page-sub", text: "Workers and queue" }),
      ),
      el("div", { class: "settings-sum" }, words, disk),
    ),
    settingsTabs("service"),
    problem,
    loading,
    body,
  );
  return {
    root,
    problem,
    loading,
    update(service) {
      loading.hidden = true;
      body.hidden = false;
      setText(words, serviceWords(service));
      const free = diskWords(service);
      disk.hidden = free === "";
      rerender(disk, free, () => (free === "" ? [] : [icon("disk"), el("span", { text: free })]));
      for (const part of parts) part.update(service);
    },
  };
}
