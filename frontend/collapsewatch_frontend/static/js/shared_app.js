/** Starts the page of a link: the same screens, read-only, of what was shared alone. */

import { EventStream, getMetricsInfo, getSharedPage } from "./api.js";
import { parseRoute } from "./routes.js";
import { noteShared, showsScreen, startHash } from "./shared.js";
import { mountCompare } from "./views/compare.js";
import { notFound } from "./views/not_found.js";
import { mountRollouts } from "./views/rollouts.js";
import { mountRun } from "./views/run.js";
import { mountSharedChart } from "./views/shared_chart.js";
import { isComparedChart, mountSharedComparedChart } from "./views/shared_compared_chart.js";
import { endedCard, mountSharedRuns } from "./views/shared_screens.js";
import { createSharedShell } from "./views/shared_shell.js";

/** @type {Record<string, (...told: any[]) => any>} */
const NO_SCREEN = { follow: () => false, onOpen() {}, onEvent() {}, destroy() {} };
/** After this a link is asked again whether it is still good, where its stream does not come back. */
const ASK_AGAIN_MS = 5_000;
const host = document.getElementById("main");
document.documentElement.dataset.shared = "";
if (new URLSearchParams(window.location.search).has("embed")) document.documentElement.dataset.embed = "";

async function start() {
  const shared = await getSharedPage();
  noteShared(shared);
  const metricsInfo = await getMetricsInfo().catch((error) => {
    // Explanations are an aid; the numbers stand without them.
    console.warn("explanations could not be loaded", error);
    return {};
  });
  if (parseRoute(window.location.hash)?.screen === "runs") {
    window.history.replaceState(null, "", startHash(shared));
  }
  run(shared, metricsInfo);
}

function run(shared, metricsInfo) {
  const shell = createSharedShell(shared);
  const isLive = shared.mode === "live";
  let screen = NO_SCREEN;
  let connected = !isLive;

  function mount(route) {
    if (isComparedChart(shared)) return mountSharedComparedChart(host, { shared, shell, metricsInfo });
    if (shared.kind === "chart") return mountSharedChart(host, { shared, shell, metricsInfo });
    if (!showsScreen(shared, route)) {
      host.replaceChildren(notFound("This link does not show that.", "Not shared"));
      shell.setTitle("Not shared", 0);
      return NO_SCREEN;
    }
    if (route.screen === "run") return mountRun(host, { route, shell, metricsInfo, navigate: goTo });
    if (route.screen === "compare") {
      return mountCompare(host, { route, shell, metricsInfo, navigate: goTo });
    }
    if (route.screen === "rollouts") return mountRollouts(host, { route, shell, navigate: goTo });
    return mountSharedRuns(host, { shared, shell });
  }

  let gone = null;

  /** Goes there at once, as the page itself does. */
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
    if (route === null || screen.follow(route)) return;
    screen.destroy();
    screen = mount(route);
    if (connected) screen.onOpen();
    if (first) return;
    window.scrollTo(0, 0);
    host.focus({ preventScroll: true });
  }

  function end(error) {
    screen.destroy();
    screen = NO_SCREEN;
    shell.setEnded();
    host.replaceChildren(endedCard(error));
  }

  window.addEventListener("hashchange", onAddress);
  showScreen({ first: true });
  if (isLive) {
    follow({
      onOpen: () => {
        connected = true;
        screen.onOpen();
      },
      onEvent: (name, event) => screen.onEvent(name, event),
      onState: (state) => shell.setConnection(state),
      onEnd: end,
    });
  }
}

/** Keeps the page live, and notices when the link was withdrawn. */
function follow({ onOpen, onEvent, onState, onEnd }) {
  let isAsking = false;
  let isOver = false;
  const connection = { connected: false, lostAtMs: Date.now(), everConnected: false };

  async function askAgain() {
    if (isAsking || isOver) return;
    isAsking = true;
    try {
      await getSharedPage();
    } catch (error) {
      if (error.status === 404 || error.status === 410) {
        isOver = true;
        stream.stop?.();
        onEnd(error);
      }
    } finally {
      isAsking = false;
    }
    if (!isOver && !connection.connected) setTimeout(askAgain, ASK_AGAIN_MS);
  }

  const stream = new EventStream({
    onOpen,
    onEvent,
    onState: ({ connected, lostAtMs }) => {
      connection.everConnected ||= connected;
      Object.assign(connection, { connected, lostAtMs });
      if (isOver) return;
      onState(connection);
      if (!connected) askAgain();
    },
  });
  stream.start();
}

try {
  await start();
} catch (error) {
  host.replaceChildren(endedCard(error));
}
