/** Alerts as they fire, wherever on the page a person is. */

import { severityInfo, splitLead } from "../alerts.js";
import { formatStep, isNumber, plural } from "../format.js";
import { alertHref, runHref } from "../routes.js";
import { prose } from "./components.js";
import { el } from "./dom.js";
import { icon } from "./icons.js";

const MAX_TOASTS = 4;
const SECONDS_ON_SCREEN = 20;
const RETRY_SECONDS = 3;
const SECONDS_OF_NOTE = 5;

/**
 * Shows an alert until it is dismissed. It goes by itself where nothing is lost by it: a mere note,
 * or an alert of the run that is on screen (`onScreen`), whose page keeps it.
 */
export function showToast(alert, { runId, runName, onScreen }) {
  const host = document.getElementById("toasts");
  const info = severityInfo(alert.severity);
  const toast = el(
    "div",
    {
      class: `toast severity-${alert.severity}`,
      role: alert.severity === "critical" ? "alert" : "status",
      data: { testid: "toast", severity: alert.severity },
    },
    el("span", { class: "toast-icon" }, icon(info.icon, 18)),
    el(
      "div",
      { class: "toast-body" },
      el(
        "p",
        { class: "toast-title" },
        el("a", { href: alertHref(alert.alert_id), text: `${info.name}: ${alert.title}` }),
      ),
      el("p", { class: "toast-message" }, prose(splitLead(alert.message).lead)),
      el(
        "p",
        { class: "toast-foot" },
        el("a", { href: runHref(runId), text: runName }),
        isNumber(alert.opened_step) ? el("span", { text: ` · step ${formatStep(alert.opened_step)}` }) : null,
      ),
    ),
    el(
      "button",
      { class: "icon-button", type: "button", "aria-label": "Dismiss", on: { click: () => dismiss(toast) } },
      icon("close"),
    ),
  );
  host.append(toast);
  makeRoom(host);
  if (alert.severity === "info" || onScreen) setTimeout(() => expire(toast), SECONDS_ON_SCREEN * 1000);
}

/** The oldest make room for the newest; how many went is said, with the way to them. */
function makeRoom(host) {
  const shown = [...host.querySelectorAll("[data-testid=toast]")];
  const gone = shown.slice(0, Math.max(0, shown.length - MAX_TOASTS));
  for (const toast of gone) toast.remove();
  if (gone.length === 0) return;
  const known = host.querySelector("[data-testid=toast-more]");
  const numGone = gone.length + Number(known?.dataset.num ?? 0);
  known?.remove();
  const more = el(
    "div",
    { class: "toast toast-note", role: "status", data: { testid: "toast-more", num: String(numGone) } },
    el("a", { href: "#/alerts", text: `${plural(numGone, "earlier alert")} in the inbox` }),
  );
  host.prepend(more);
  setTimeout(() => expire(more), SECONDS_ON_SCREEN * 1000);
}

/** A word on something that a person just did; it goes by itself. */
export function showNote(text) {
  const note = el("div", { class: "toast toast-note", role: "status", data: { testid: "note" }, text });
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), SECONDS_OF_NOTE * 1000);
}

/** The focus goes to the next toast or to the page instead of getting lost with the button. */
function dismiss(toast) {
  const next = toast.nextElementSibling ?? toast.previousElementSibling;
  toast.remove();
  (next?.querySelector("button") ?? document.getElementById("main")).focus({ preventScroll: true });
}

/** What a person is reading or about to press stays. */
function expire(toast) {
  if (toast.matches(":hover, :focus-within")) setTimeout(() => expire(toast), RETRY_SECONDS * 1000);
  else toast.remove();
}
