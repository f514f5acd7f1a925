/** Screen: where people are told of alerts. Channels, and notifications of this browser. */

import { may, whereMay } from "../access.js";
import { getChannels, getProjects } from "../api.js";
import { Refresher } from "../refresh.js";
import { noticeSwitch } from "./browser_notices.js";
import { channelCard } from "./channel_card.js";
import { openChannelDialog } from "./channel_dialog.js";
import { notice } from "./components.js";
import { button } from "./forms.js";
import { el, KeyedList } from "./dom.js";
import { settingsTabs } from "./settings_tabs.js";

const SLOW_MS = 5_000;
/** The stream usually opens sooner and asks for the first load itself. */
const FIRST_LOAD_MS = 300;

/** Mounts the screen; returns what the app calls on events, on reconnects and at the end. */
export function mountChannels(host, { shell }) {
  const view = { channels: [], projects: [] };
  const reload = () => refresher.requestNow("channels");
  const notices = noticeSwitch();
  const page = buildPage({ view, notices, reload });
  host.replaceChildren(page.root);
  shell.setTitle("Alert channels", 0);
  const refresher = new Refresher(
    async () => {
      const projects = (await getProjects()).map(({ name }) => name);
      // Whoever has none to look after chooses here what this browser tells.
      const channels = may("channel.edit") ? await getChannels() : null;
      Object.assign(view, { channels, projects });
      page.problem.replaceChildren();
      page.update(view);
    },
    {
      delayMs: 1_000,
      onError: (error) => {
        page.loading.hidden = true;
        page.problem.replaceChildren(
          notice(
            "bad",
            el("p", { text: `The channels could not be loaded: ${error.message}. Trying again.` }),
          ),
        );
      },
    },
  );
  const timer = setInterval(() => refresher.request("channels"), SLOW_MS);
  refresher.request("channels", FIRST_LOAD_MS);
  return {
    follow: (next) => next.screen === "channels",
    onOpen: reload,
    onEvent: (name) => {
      if (name === "alert_change") refresher.request("channels");
    },
    destroy() {
      refresher.stop();
      clearInterval(timer);
      notices.destroy();
    },
  };
}

function buildPage({ view, notices, reload }) {
  const problem = el("div");
  const loading = el("p", { class: "loading", text: "Loading…" });
  const list = el("ul", { class: "rule-list", data: { testid: "channel-list" } });
  const empty = el(
    "div",
    { class: "card empty-card", data: { testid: "no-channels" } },
    el("p", {
      text: "No channel yet. A channel sends what becomes of alerts to where you read: Slack, Discord, e-mail and others by Apprise, or your own program by a signed webhook.",
    }),
  );
  const cards = new KeyedList(list, {
    keyOf: (channel) => channel.channel_id,
    create: () => channelCard({ projects: () => whereMay("channel.edit", view.projects), reload }),
  });
  const add = button("Add a channel", {
    primary: true,
    data: { testid: "add-channel" },
    on: { click: () => openChannelDialog({ projects: whereMay("channel.edit", view.projects), onDone: reload }) },
  });
  const body = el(
    "div",
    { hidden: true },
    el("div", { class: "section-head" }, el("h2", { class: "section-title", text: "Channels" }), add),
    list,
    empty,
  );
  const root = el(
    "div",
    { class: "channels-page", data: { testid: "channels-page" } },
    el(
      "div",
      { class: "page-head" },
      el(
        "div",
        {},
        el("h1", { text: "Settings" }),
        el("p", { class: "page-sub", text: "Where you are told of alerts" }),
      ),
    ),
    settingsTabs("channels"),
    problem,
    loading,
    body,
    notices.root,
  );
  return {
    root,
    problem,
    loading,
    update({ channels, projects }) {
      loading.hidden = true;
      notices.setProjects(projects);
      body.hidden = channels === null;
      if (channels === null) return;
      list.hidden = channels.length === 0;
      empty.hidden = channels.length > 0;
      cards.update(channels);
    },
  };
}
