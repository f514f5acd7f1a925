/** The queue in numbers, and open alerts about the service itself. */

import { alertWhenWords, openAlerts, splitLead } from "../alerts.js";
import { plural } from "../format.js";
import { runHref } from "../routes.js";
import { queueFacts } from "../service.js";
import { prose, severityBadge } from "./components.js";
import { el, rerender, setText } from "./dom.js";

export function queuePart() {
  const facts = el("dl", { class: "queue-facts" });
  const root = el(
    "section",
    { "aria-label": "Queue", data: { testid: "queue" } },
    el("h2", { class: "section-title", text: "Queue" }),
    facts,
  );
  return {
    root,
    update({ queue }) {
      const shown = queueFacts(queue);
      rerender(facts, JSON.stringify(shown), () => shown.map(queueFact));
    },
  };
}

function queueFact({ id, name, value, note, attention = false }) {
  return el(
    "div",
    {
      class: attention ? "card queue-fact queue-attention" : "card queue-fact",
      data: { testid: `queue-${id}` },
    },
    el("dt", { text: name }),
    el(
      "dd",
      {},
      el("span", { class: "fact-value", text: value }),
      el("span", { class: "fact-note", text: note }),
    ),
  );
}

/** What is open, the service's own in full, those of runs folded away: each goes when its cause is gone. */
export function serviceAlertsPart() {
  const own = el("ul", { class: "alerts" });
  const ofRunsTitle = el("summary");
  const ofRuns = el("ul", { class: "alerts" });
  const folded = el("details", { class: "folded" }, ofRunsTitle, ofRuns);
  const root = el(
    "section",
    { hidden: true, "aria-label": "Open alerts", data: { testid: "service-alerts" } },
    el("h2", { class: "section-title", text: "Open alerts" }),
    own,
    folded,
  );
  return {
    root,
    update({ alerts }) {
      const opened = openAlerts(alerts);
      const aboutRuns = opened.filter((alert) => alert.run_id);
      root.hidden = opened.length === 0;
      folded.hidden = aboutRuns.length === 0;
      setText(ofRunsTitle, plural(aboutRuns.length, "alert about a run", "alerts about runs"));
      showAlerts(
        own,
        opened.filter((alert) => !alert.run_id),
      );
      showAlerts(ofRuns, aboutRuns);
    },
  };
}

function showAlerts(list, alerts) {
  const now = Date.now();
  list.hidden = alerts.length === 0;
  rerender(list, JSON.stringify(alerts.map((alert) => [alert, alertWhenWords(alert, now)])), () =>
    alerts.map((alert) => alertCard(alert, now)),
  );
}

function alertCard(alert, now) {
  const { lead, rest } = splitLead(alert.message);
  return el(
    "li",
    { class: `card alert severity-${alert.severity}`, data: { testid: "service-alert", rule: alert.rule } },
    el(
      "div",
      { class: "alert-head" },
      severityBadge(alert.severity),
      el("strong", { text: alert.title }),
      alert.run_id
        ? el("a", {
            href: runHref(alert.run_id),
            data: { focusKey: `alert-${alert.alert_id}` },
            text: alert.run_name,
          })
        : null,
      el("p", { class: "alert-when", text: alertWhenWords(alert, now) }),
    ),
    el(
      "p",
      { class: "alert-message" },
      prose(lead, { class: "alert-lead" }),
      rest === "" ? null : prose(` ${rest}`),
    ),
  );
}
