/** The run's alerts: open ones in full, resolved ones folded away. */

import { alertWhenWords, isOpen, openAlerts, severityInfo, sortAlerts, splitLead } from "../alerts.js";
import { formatValue, humanise, plural } from "../format.js";
import { alertHref } from "../routes.js";
import { prose, severityBadge } from "./components.js";
import { el, KeyedList, rerender, setText } from "./dom.js";
import { icon } from "./icons.js";

export function alertsPart() {
  const heading = el("h2", { class: "section-title" });
  const calm = el("p", { class: "calm" });
  const open = el("ul", { class: "alerts", data: { testid: "alerts-open" } });
  const resolvedTitle = el("summary");
  const resolved = el("ul", { class: "alerts" });
  const folded = el("details", { class: "folded", hidden: true }, resolvedTitle, resolved);
  const root = el(
    "section",
    { class: "alerts-part", "aria-label": "Alerts", data: { testid: "alerts" } },
    heading,
    calm,
    open,
    folded,
  );
  const cards = new Map();
  const options = {
    keyOf: (alert) => alert.alert_id,
    create: (alert) => {
      const card = createAlert(alert);
      cards.set(alert.alert_id, card);
      return { ...card, destroy: () => forget(cards, alert.alert_id, card) };
    },
  };
  const openList = new KeyedList(open, options);
  const resolvedList = new KeyedList(resolved, options);
  return {
    root,
    update({ data }) {
      const opened = openAlerts(data.alerts);
      const done = sortAlerts(data.alerts).filter((alert) => !isOpen(alert));
      setText(heading, opened.length === 0 ? "Alerts" : plural(opened.length, "open alert"));
      calm.hidden = opened.length > 0;
      showCalm(calm, data.regime()?.regime);
      open.hidden = opened.length === 0;
      openList.update(opened);
      folded.hidden = done.length === 0;
      setText(resolvedTitle, historyWords(done));
      resolvedList.update(done);
    },
    /** The ages go on while nothing else changes. */
    tick: () => cards.forEach((card) => card.tick()),
  };
}

/** `2 resolved alerts`, `1 resolved, 2 in an earlier attempt`. */
function historyWords(done) {
  const superseded = done.filter((alert) => alert.superseded === true).length;
  const resolved = done.length - superseded;
  if (superseded === 0) return plural(resolved, "resolved alert");
  const earlier = `${plural(superseded, "alert")} in an earlier attempt`;
  return resolved === 0 ? earlier : `${plural(resolved, "resolved alert")}, ${earlier}`;
}

/** An alert that was resolved has a new card in the other list by now; that one stays known. */
function forget(cards, alertId, card) {
  if (cards.get(alertId) === card) cards.delete(alertId);
}

/** Silence is good news only where something was judged. */
function showCalm(host, regime) {
  const judged = regime !== undefined && regime !== "insufficient";
  rerender(host, String(judged), () => [
    judged ? icon("resolved") : icon("insufficient"),
    el("span", { text: judged ? "No open alert" : "No open alert; input dependence is not judged yet" }),
  ]);
}

function createAlert(alert) {
  const when = el("p", { class: "alert-when" });
  const title = el("a", {
    class: "alert-title",
    href: alertHref(alert.alert_id),
    title: "Evidence and history",
  });
  const earlier = el("span", {
    class: "chip",
    hidden: true,
    title: "A later attempt replayed the step that this alert is about.",
    text: "in an earlier attempt",
  });
  const message = el("p", { class: "alert-message" });
  const evidence = el("dl", { class: "evidence" });
  const root = el(
    "li",
    {
      class: `card alert severity-${alert.severity}`,
      data: { testid: "alert", severity: alert.severity, rule: alert.rule },
    },
    el("div", { class: "alert-head" }, severityBadge(alert.severity), title, earlier, when),
    message,
    el(
      "details",
      { class: "alert-evidence" },
      el("summary", { data: { testid: "alert-evidence" }, text: "Evidence" }),
      evidence,
    ),
  );
  let shown = alert;
  return {
    root,
    tick: () => setText(when, alertWhenWords(shown, Date.now())),
    update(latest) {
      shown = latest;
      root.classList.toggle("alert-resolved", !isOpen(latest));
      earlier.hidden = latest.superseded !== true;
      root.setAttribute("aria-label", `${severityInfo(latest.severity).name}: ${latest.title}`);
      setText(title, latest.title);
      rerender(message, latest.message, () => {
        const { lead, rest } = splitLead(latest.message);
        return [prose(lead, { class: "alert-lead" }), rest === "" ? null : prose(` ${rest}`)];
      });
      setText(when, alertWhenWords(latest, Date.now()));
      rerender(evidence, JSON.stringify(latest.evidence), () => evidenceRows(latest));
    },
  };
}

function evidenceRows(alert) {
  const rows = [
    ["rule", alert.rule],
    ["scope", alert.scope],
    ...Object.entries(alert.evidence ?? {}).map(([key, value]) => [humanise(key), formatValue(value)]),
  ];
  return rows.map(([key, value]) => el("div", {}, el("dt", { text: key }), el("dd", { text: value })));
}
