/** One channel: how it stands, what it is told, a test, and the log of what was sent. */

import { removeChannel, testChannel, updateChannel } from "../api.js";
import { KINDS, channelNews, channelState, filterWords, testWords } from "../channels.js";
import { channelMark } from "./components.js";
import { openChannelDialog } from "./channel_dialog.js";
import { deliveryLog } from "./delivery_log.js";
import { button, checkbox, confirmLoss } from "./forms.js";
import { el, rerender, setText } from "./dom.js";

export function channelCard({ projects, reload }) {
  let shown = null;
  const parts = cardParts();
  const { outcome, enabled, log } = parts;
  const act = async (action) => {
    try {
      setText(outcome, "");
      await action();
    } catch (error) {
      setText(outcome, `It did not work: ${error.message}.`);
    }
    reload();
  };
  enabled.input.addEventListener("change", () =>
    act(() => updateChannel(shown.channel_id, { enabled: enabled.input.checked })),
  );
  const buttons = {
    test: async ({ currentTarget: button }) => {
      button.disabled = true;
      setText(outcome, "Sending …");
      await act(async () => setText(outcome, testWords(await testChannel(shown.channel_id))));
      button.disabled = false;
      log.reload();
    },
    edit: () => openChannelDialog({ channel: shown, projects: projects(), onDone: reload }),
    delete: () => askToRemove(shown, reload),
  };
  return {
    root: cardRoot(parts, buttons),
    update(channel) {
      const isNews = JSON.stringify(shown) !== JSON.stringify(channel);
      shown = channel;
      showChannel(parts, channel);
      log.follow(channel, isNews);
    },
  };
}

const cardParts = () => ({
  name: el("strong"),
  state: el("span"),
  target: el("code", { class: "channel-target" }),
  words: el("p", { class: "rule-words" }),
  news: el("p", { class: "faint", data: { testid: "channel-news" } }),
  outcome: el("p", { class: "inbox-said", role: "status", data: { testid: "test-outcome" } }),
  enabled: checkbox("On", { data: { testid: "channel-enabled" } }),
  log: deliveryLog(),
});

const BUTTONS = { test: "Send a test", edit: "Edit", delete: "Delete" };

function cardRoot({ name, state, target, words, news, outcome, enabled, log }, clicks) {
  const buttons = Object.entries(BUTTONS).map(([id, text]) =>
    button(text, { small: true, data: { testid: `${id}-channel` }, on: { click: clicks[id] } }),
  );
  return el(
    "li",
    { class: "card rule-card", data: { testid: "channel" } },
    el("div", { class: "alert-head" }, state, name, el("span", { class: "rule-end" }, enabled.root, buttons)),
    el("p", { class: "channel-to" }, target),
    words,
    news,
    outcome,
    log.root,
  );
}

function showChannel({ name, state, target, words, news, enabled }, channel) {
  setText(name, channel.name);
  const info = channelState(channel);
  rerender(state, info.name, () => [channelMark(info)]);
  setText(target, `${KINDS[channel.kind]?.name ?? channel.kind} · ${channel.target}`);
  setText(words, `Sends ${filterWords(channel)}.`);
  setText(news, channelNews(channel, Date.now()));
  enabled.input.checked = channel.enabled;
  enabled.input.setAttribute("aria-label", `${channel.name} on`);
  name.closest("li").classList.toggle("rule-off", !channel.enabled);
}

function askToRemove(channel, reload) {
  confirmLoss({
    title: `Delete the channel ${channel.name}?`,
    text: "Nothing is sent to it any more; what waits for it and its log are removed.",
    confirm: "Delete",
    action: async () => {
      await removeChannel(channel.channel_id);
      reload();
    },
  });
}
