/** Rules of one's own: the list, and the form with its preview on runs that are there. */

import { may, whereMay } from "../access.js";
import { changeRule, createRule, removeRule } from "../api.js";
import { aboutWords, formOf, ruleOf, ruleWords } from "../alert_rules.js";
import { plural } from "../format.js";
import { alertsHref } from "../routes.js";
import { severityBadge } from "./components.js";
import { button, checkbox, confirmLoss } from "./forms.js";
import { el, KeyedList, rerender, setText } from "./dom.js";
import { openRuleDialog } from "./rule_dialog.js";

export function ownRulesPart({ metricsInfo, reload }) {
  const list = el("ul", { class: "rule-list", data: { testid: "own-rules" } });
  const empty = el(
    "div",
    { class: "card empty-card", data: { testid: "no-rules" } },
    el("p", {
      text: "No rule of your own yet. A rule watches one metric of your runs: against a number, or against each run’s baseline. You see at which steps it would have fired before you save it.",
    }),
  );
  const said = el("p", { class: "inbox-said", role: "status" });
  const cards = new KeyedList(list, {
    keyOf: (rule) => rule.rule_id,
    create: () =>
      createCard({ view: () => current, metricsInfo, reload, say: (text) => setText(said, text) }),
  });
  let current = { projects: [], rules: [] };
  const add = button("New rule", {
    primary: true,
    data: { testid: "new-rule" },
    on: {
      click: () =>
        openRuleDialog({
          title: "New rule",
          projects: whereMay("rule.edit", current.projects),
          metricsInfo,
          save: createRule,
          onDone: reload,
        }),
    },
  });
  const root = el(
    "section",
    { "aria-label": "Rules of your own" },
    el(
      "div",
      { class: "section-head" },
      el("h2", { class: "section-title", text: "Rules of your own" }),
      add,
    ),
    said,
    list,
    empty,
  );
  return {
    root,
    update(view) {
      current = view;
      add.hidden = !may("rule.edit");
      list.hidden = view.rules.length === 0;
      empty.hidden = view.rules.length > 0;
      cards.update(view.rules);
    },
  };
}

function createCard({ view, metricsInfo, reload, say }) {
  let shown = null;
  const parts = cardParts();
  const { enabled } = parts;
  enabled.input.addEventListener("change", async () => {
    try {
      await changeRule(shown.rule_id, ruleOf({ ...formOf(shown), enabled: enabled.input.checked }));
    } catch (error) {
      say(`“${shown.name}” could not be changed: ${error.message}.`);
    }
    reload();
  });
  const edit = () =>
    openRuleDialog({
      title: `Rule ${shown.name}`,
      rule: shown,
      projects: whereMay("rule.edit", view().projects),
      metricsInfo,
      save: (rule) => changeRule(shown.rule_id, rule),
      onDone: reload,
    });
  parts.end.append(
    button("Edit", { small: true, data: { testid: "edit-rule" }, on: { click: edit } }),
    button("Delete", {
      small: true,
      data: { testid: "delete-rule" },
      on: { click: () => askToRemove(shown, reload) },
    }),
  );
  return {
    root: parts.root,
    update(rule) {
      shown = rule;
      parts.end.hidden = !mayChange(rule);
      showRule(parts, rule);
    },
  };
}

/** A rule of one run is its project's, which the server knows. */
const mayChange = ({ project, run }) => may("rule.edit", project ?? (run ? undefined : null));

function cardParts() {
  const name = el("strong");
  const badge = el("span");
  const words = el("p", { class: "rule-words" });
  const about = el("p", { class: "faint" });
  const enabled = checkbox("On", { data: { testid: "rule-enabled" } });
  const end = el("span", { class: "rule-end" }, enabled.root);
  const root = el(
    "li",
    { class: "card rule-card", data: { testid: "own-rule" } },
    el("div", { class: "alert-head" }, badge, name, end),
    words,
    about,
  );
  return { root, name, badge, words, about, enabled, end };
}

function showRule({ root, name, badge, words, about, enabled }, rule) {
  setText(name, rule.name);
  rerender(badge, rule.severity, () => [severityBadge(rule.severity)]);
  setText(words, ruleWords(rule));
  enabled.input.checked = rule.enabled;
  enabled.input.setAttribute("aria-label", `${rule.name} on`);
  root.classList.toggle("rule-off", !rule.enabled);
  const isOpen = rule.num_open > 0;
  const text = isOpen ? `${plural(rule.num_open, "alert")} unresolved` : "Its alerts";
  const href = alertsHref({ rule: rule.rule, status: isOpen ? "" : "all" });
  rerender(about, JSON.stringify([aboutWords(rule), text, href]), () => [
    el("span", { text: `On ${aboutWords(rule)}. ` }),
    el("a", { href, data: { focusKey: "open" }, text }),
  ]);
}

function askToRemove(rule, reload) {
  const open =
    rule.num_open > 0 ? ` ${plural(rule.num_open, "alert")} that it holds open will be resolved.` : "";
  confirmLoss({
    title: `Delete the rule ${rule.name}?`,
    text: `It will watch no run any more.${open} Its past alerts stay in the inbox.`,
    confirm: "Delete",
    action: async () => {
      await removeRule(rule.rule_id);
      reload();
    },
  });
}
