/** Starts the page: one event stream, one screen at a time. */

import { EventStream, getAlerts, getMetricsInfo, getRun, getService } from "./api.js";
import { freshAlerts } from "./alerts.js";
import { Refresher } from "./refresh.js";
import { parseRoute, runsHref } from "./routes.js";
import { mountCompare } from "./views/compare.js";
import { notFound } from "./views/not_found.js";
import { mountRun } from "./views/run.js";
import { mountRuns } from "./views/runs.js";
import { mountSettings } from "./views/settings.js";
import { createShell } from "./views/shell.js";
import { showToast } from "./views/toasts.js";

const NO_SCREEN = { follow: () => false, onOpen() {}, onEvent() {}, destroy() {} };
const host = document.getElementById("main");
const shell = createShell();
const connection = { connected: false, lostAtMs: Date.now(), everConnected: false };
let metricsInfo = {};
let screen = NO_SCREEN;

function mount(route) {
  if (route.screen === "runs") {
    return mountRuns(host, { route, shell, navigate: (change) => goTo(runsHref(change)) });
  }
  if (route.screen === "run") return mountRun(host, { route, shell, metricsInfo, navigate: goTo });
  if (route.screen === "compare") return mountCompare(host, { route, shell, metricsInfo });
  if (route.screen === "settings") return mountSettings(host, { shell });
  host.replaceChildren(notFound("There is no such page."));
  shell.setTitle("Not found", 0);
  return NO_SCREEN;
}

function goTo(href) {
  window.location.hash = href;
}

function showScreen({ first = false } = {}) {
  const route = parseRoute(window.location.hash);
  if (route === null || screen.follow(route)) return;
  screen.destroy();
  screen = mount(route);
  shell.setScreen(route.screen);
  if (connection.connected) screen.onOpen();
  if (first) return;
  window.scrollTo(0, 0);
  host.focus({ preventScroll: true });
}

/** Alerts that were open before the page was are on the page already; only news pops up. */
const toasted = new Set();
const openedAt = Date.now();
const CLOCK_SLACK_MS = 60_000;

async function announceAlerts(runId) {
  const [run, alerts] = await Promise.all([getRun(runId), getAlerts(runId)]);
  for (const alert of freshAlerts(toasted, alerts)) {
    toasted.add(alert.alert_id);
    if (Date.parse(alert.opened_at) >= openedAt - CLOCK_SLACK_MS) {
      const route = parseRoute(window.location.hash);
      showToast(alert, { runId, runName: run.name, onScreen: route?.runId === runId });
    }
  }
}

/** Alerts about the service itself stand on every screen; without an event they are read now and then. */
const SERVICE_MS = 30_000;
const serviceWatch = new Refresher(async () => shell.setServiceAlerts((await getService()).alerts), {
  onError: (error) => {
    console.warn("the service's state could not be read", error);
    return "give up";
  },
});
setInterval(() => serviceWatch.request("service"), SERVICE_MS);

const stream = new EventStream({
  onOpen: () => {
    screen.onOpen();
    serviceWatch.requestNow("service");
  },
  onEvent: (name, event) => {
    screen.onEvent(name, event);
    if (name !== "alert") return;
    if (!event.run_id) return serviceWatch.request("service");
    announceAlerts(event.run_id).catch((error) => console.warn("an alert could not be announced", error));
  },
  onState: ({ connected, lostAtMs }) => {
    connection.everConnected ||= connected;
    Object.assign(connection, { connected, lostAtMs });
    shell.setConnection(connection);
  },
});

window.addEventListener("hashchange", () => showScreen());
try {
  metricsInfo = await getMetricsInfo();
} catch (error) {
  // Explanations are an aid; the numbers stand without them.
  console.warn("explanations could not be loaded", error);
}
showScreen({ first: true });
stream.start();
