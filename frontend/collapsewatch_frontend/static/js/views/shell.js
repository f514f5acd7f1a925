/** The frame of every screen: top bar, live mark, tab title, skip link. */

import { documentTitle } from "../alerts.js";
import { formatClock } from "../format.js";
import { liveState } from "../refresh.js";
import { alertsHref, compareHref, runsHref, settingsHref } from "../routes.js";
import { el, setAttribute, setText } from "./dom.js";
import { icon, logo } from "./icons.js";
import { meMenu } from "./me_menu.js";
import { serviceBanner } from "./service_banner.js";
import { currentTheme, onThemeChange, toggleTheme } from "./theme.js";

const LINKS = [
  { screen: "runs", text: "Runs", href: runsHref() },
  { screen: "compare", text: "Compare", href: compareHref([]) },
  { screen: "alerts", text: "Alerts", href: alertsHref() },
  { screen: "settings", text: "Settings", href: settingsHref() },
];

/** Screens that belong to another one's link. */
const BELONGS = {
  ...{ run: "runs", rollouts: "runs", alert: "alerts", rules: "alerts" },
  ...{ channels: "settings", shares: "settings", people: "settings", keys: "settings" },
  ...{ retention: "settings", audit: "settings" },
};

/** Builds the top bar for who is in, as the session says; `setConnection`, `setScreen`, `setNumOpen`, `setServiceAlerts` and `setTitle` keep it true. */
export function createShell(session) {
  const live = el("span", { class: "live live-connecting", role: "status", data: { testid: "live-state" } });
  const liveText = el("span", { text: "connecting" });
  const links = LINKS.map(({ screen, ...link }) => ({
    screen,
    node: el("a", { class: "nav-link", ...link }),
  }));
  const numOpen = el("span", { class: "nav-count", hidden: true, data: { testid: "nav-count" } });
  const alertsLink = links.find(({ screen }) => screen === "alerts").node;
  const openWord = el("span", { class: "visually-hidden", hidden: true, text: " open" });
  alertsLink.append(numOpen, openWord);
  const banner = serviceBanner(document.getElementById("banner"));
  live.append(el("span", { class: "live-dot", "aria-hidden": "true" }), liveText);
  document.getElementById("topbar").append(
    el(
      "div",
      { class: "topbar-inner" },
      el("a", { class: "brand", href: runsHref() }, logo(), el("span", { text: "collapsewatch" })),
      el(
        "nav",
        { class: "nav", "aria-label": "Main" },
        links.map((link) => link.node),
      ),
      el("div", { class: "topbar-end" }, live, themeButton(), meMenu(session)),
    ),
  );
  keepSkipLink();
  return {
    setConnection(connection) {
      const state = liveState(connection);
      live.className = `live live-${state.kind}`;
      setText(liveText, liveWords(state));
    },
    /** Number of open alerts, beside the link to them. */
    setNumOpen(count) {
      numOpen.hidden = openWord.hidden = count === 0;
      setText(numOpen, count > 99 ? " 99+" : ` ${count}`);
    },
    /** Marks the link of the screen that is shown; a run belongs to the runs. */
    setScreen(screen) {
      const shown = BELONGS[screen] ?? screen;
      banner.setQuiet(screen === "settings");
      for (const link of links)
        setAttribute(link.node, "aria-current", link.screen === shown ? "page" : null);
    },
    setServiceAlerts: (alerts) => banner.update(alerts),
    setTitle(name, numUrgent) {
      document.title = documentTitle(name, numUrgent);
    },
  };
}

/** @param {Record<string, any>} state */
function liveWords({ kind, sinceMs, connected }) {
  if (kind === "live") return "live";
  if (kind === "connecting") return "connecting";
  if (connected) return `stale since ${formatClock(sinceMs)}, trying again`;
  return `reconnecting, stale since ${formatClock(sinceMs)}`;
}

export function themeButton() {
  const button = el("button", { class: "icon-button", type: "button", data: { testid: "theme-toggle" } });
  const show = () => {
    const next = currentTheme() === "dark" ? "light" : "dark";
    button.setAttribute("aria-label", `Use the ${next} theme`);
    button.title = `Use the ${next} theme`;
    button.replaceChildren(icon(next, 18));
  };
  button.addEventListener("click", toggleTheme);
  onThemeChange(show);
  show();
  return button;
}

/** The hash is the router's, so the skip link moves the focus itself. */
function keepSkipLink() {
  document.getElementById("skip-link").addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("main").focus();
  });
}
