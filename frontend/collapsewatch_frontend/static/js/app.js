/** Starts the page: one event stream, one screen at a time. */

import {
  EventStream,
  forgetAhead,
  getAlert,
  getInbox,
  getMetricsInfo,
  getProjects,
  getService,
  getSession,
  onSignedOut,
} from "./api.js";
import { noteSession } from "./access.js";
import { isNews } from "./alerts.js";
import { fetchPlotlyLater } from "./plotly_library.js";
import { Refresher, attention, freshness } from "./refresh.js";
import { parseRoute, runsHref } from "./routes.js";
import { Screens } from "./screens.js";
import { tellInBrowser } from "./views/browser_notices.js";
import { notice } from "./views/components.js";
import { el } from "./views/dom.js";
import { admit, showEnded } from "./views/gate.js";
import { notFound } from "./views/not_found.js";
import { onNews } from "./views/session_news.js";
import { createShell } from "./views/shell.js";
import { showToast } from "./views/toasts.js";

/** @type {Record<string, (...told: any[]) => any>} */
const NO_SCREEN = { follow: () => false, onOpen() {}, onEvent() {}, destroy() {} };
/** By then a page has what it shows. */
const IDLE_MS = 3_000;
const host = document.getElementById("main");
const screens = new Screens();
// It comes while the session is asked for; what goes wrong is said where it is shown.
loadFirst();
const explained = getMetricsInfo().catch((error) => {
  // Explanations are an aid; the numbers stand without them.
  console.warn("explanations could not be loaded", error);
  return {};
});
const session = await admit(host);
noteSession(session);
const shell = createShell(session);
const connection = { connected: false, lostAtMs: Date.now(), everConnected: false };
/** @type {Record<string, any>} */
const metricsInfo = await explained;
let isOver = false;
let screen = NO_SCREEN;
/** The screen that is gone to while it loads; the one before is over, so that it does nothing to the address. */
let awaited = null;
/** Screens load what they show: the stream is there, or it will tell all that happens from here on. */
let mayLoad = false;

function mount(route) {
  const mountScreen = screens.mountOf(route.screen);
  if (mountScreen !== undefined) {
    const navigate = route.screen === "runs" ? (change) => goTo(runsHref(change)) : goTo;
    return mountScreen(host, { route, shell, metricsInfo, navigate });
  }
  host.replaceChildren(notFound("There is no such page."));
  shell.setTitle("Not found", 0);
  return NO_SCREEN;
}

/** The address that the page has gone to by itself, until the browser tells of it. */
let gone = null;

/** Goes there at once: what a person chooses next, before the browser tells of the address, counts from there. */
function goTo(href) {
  const before = window.location.hash;
  window.location.hash = href;
  if (window.location.hash !== before) gone = window.location.hash;
  showScreen();
}

function onAddress() {
  const isKnown = window.location.hash === gone;
  gone = null;
  if (!isKnown) showScreen();
}

function showScreen({ first = false } = {}) {
  const route = parseRoute(window.location.hash);
  // The door looks at links to join by, before anything else is there.
  if (route?.screen === "join") window.location.reload();
  if (isOver || route === null || route.screen === "join") return;
  if (isAwaited(route.screen, { first })) return;
  if (screen.follow(route)) return;
  screen.destroy();
  screen = mount(route);
  shell.setScreen(route.screen);
  if (connection.connected || (mayLoad && !connection.everConnected)) screen.onOpen();
  if (first) return;
  window.scrollTo(0, 0);
  host.focus({ preventScroll: true });
}

/** Whether the screen still has to be loaded; it is shown when it is here, unless another is gone to meanwhile. */
function isAwaited(name, { first }) {
  awaited = null;
  if (!screens.has(name) || screens.mountOf(name) !== undefined) return false;
  awaited = name;
  if (!first) leave(el("p", { class: "loading", text: "Loading…" }));
  screens.load(name).then(
    () => {
      if (awaited === name) showScreen({ first });
    },
    (error) => {
      if (awaited === name) showMissing(name, error);
    },
  );
  return true;
}

/** Ends the screen; this stands in its place. */
function leave(...nodes) {
  screen.destroy();
  screen = NO_SCREEN;
  host.replaceChildren(...nodes);
}

/** Instead of a screen that did not come. */
function showMissing(name, error) {
  const again = el("button", { class: "button", type: "button", text: "Try again" });
  again.addEventListener("click", () => window.location.reload());
  const text = `This screen could not be loaded: ${error.message}`;
  leave(notice("bad", el("p", { text }), again));
  shell.setScreen(name);
}

function loadFirst() {
  const name = parseRoute(window.location.hash)?.screen ?? "";
  if (screens.has(name)) screens.load(name).catch(() => {});
}

/** Changes that were told already: after a reconnect the stream may repeat some. */
const announced = new Set();

const MOST_REMEMBERED = 500;
const MOST_AT_ONCE = 4;
let numBeingShown = 0;

async function detailOf(alertId) {
  numBeingShown += 1;
  try {
    return await getAlert(alertId);
  } finally {
    numBeingShown -= 1;
  }
}

/** Shows news of a run's alert once; what the service itself needs stands in the banner. */
async function announceChange(event) {
  if (!isNews(event) || announced.has(event.change_id)) return;
  announced.add(event.change_id);
  // What is repeated is what came last; a page that is open for weeks need not remember all.
  if (announced.size > MOST_REMEMBERED) announced.delete(announced.values().next().value);
  tellInBrowser(event);
  // In a flood only the first few pop up; the inbox and its number have them all.
  if (!event.run_id || numBeingShown >= MOST_AT_ONCE) return;
  const alert = await detailOf(event.alert_id);
  const route = parseRoute(window.location.hash);
  const onScreen = route?.runId === event.run_id || route?.screen === "alerts";
  // The severity is the one that was told; by now it may be another's turn.
  showToast({ ...alert, ...told(event) }, { runId: alert.run_id, runName: alert.run_name, onScreen });
}

const told = ({ alert_id, severity, title }) => ({ alert_id, severity, title });

/** The number beside the link to the alerts. */
const openCount = new Refresher(
  async () => shell.setNumOpen((await getInbox({ status: "open", limit: 1 })).counts.open),
  {
    onError: (error) => {
      console.warn("the open alerts could not be counted", error);
      return "give up";
    },
  },
);

/** Alerts about the service itself stand on every screen; without an event they are read now and then. */
const SERVICE_MS = 30_000;
const serviceWatch = new Refresher(async () => shell.setServiceAlerts((await getService()).alerts), {
  onError: (error) => {
    console.warn("the service's state could not be read", error);
    return "give up";
  },
});
const serviceTimer = setInterval(() => serviceWatch.request("service"), SERVICE_MS);

/** What the session was is over: nothing of it stays on screen, and nothing more is asked for. */
function end() {
  if (isOver) return;
  isOver = true;
  awaited = null;
  stream.stop();
  clearInterval(serviceTimer);
  serviceWatch.stop();
  openCount.stop();
  screen.destroy();
  screen = NO_SCREEN;
  showEnded(host);
}

/** Asks who is signed in, where that may have changed while nobody told. */
async function checkSession() {
  try {
    const latest = await getSession();
    if (latest.needs_login && latest.name === null) end();
    else if (latest.name !== session.name) window.location.reload();
    else noteSession(latest);
  } catch (error) {
    // It is asked again when the stream comes back.
    console.warn("the session could not be read", error);
  }
}

function loadAll() {
  mayLoad = true;
  screen.onOpen();
  serviceWatch.requestNow("service");
  openCount.requestNow("count");
}

const stream = new EventStream({
  onOpen: loadAll,
  onEvent: (name, event) => {
    // What was asked for ahead of a screen that is not here yet may be older than this.
    if (screen === NO_SCREEN) forgetAhead();
    screen.onEvent(name, event);
    if (name === "alert" && !event.run_id) serviceWatch.request("service");
    if (name !== "alert_change") return;
    openCount.request("count");
    announceChange(event).catch((error) => console.warn("an alert could not be announced", error));
  },
  onState: ({ connected, lostAtMs }) => {
    connection.everConnected ||= connected;
    // What the service says of itself comes without events.
    if (connected) serviceWatch.requestNow("service");
    if (session.needs_login && !isOver) checkSession();
    Object.assign(connection, { connected, lostAtMs });
    showLive();
  },
});

const showLive = () => shell.setConnection({ ...connection, staleSinceMs: freshness.staleSinceMs });
freshness.subscribe(showLive);
const noteAttention = () => attention.set(document.visibilityState === "hidden");
document.addEventListener("visibilitychange", noteAttention);
noteAttention();

window.addEventListener("hashchange", onAddress);
if (session.needs_login) {
  onSignedOut(end);
  onNews(checkSession);
  // What may be done is known before the first screen, so that it shows no button for a moment only.
  await getProjects().catch((error) => console.warn("the projects could not be read", error));
}
if (!isOver) {
  showScreen({ first: true });
  stream.start();
  // The stream tells all that happens from here on, so nothing has to wait for it.
  if (stream.knowsStart) loadAll();
}
// From the list it is one press to a run, whose charts need it.
fetchPlotlyLater((task) => setTimeout(task, IDLE_MS));
// And to every other screen; one that is here also opens while the server is away.
setTimeout(() => screens.loadAll(), IDLE_MS);
