/** Notifications of the browser, for those who switched them on. */

import { noticeOf, parseChoice, permissionWords } from "../notices.js";
import { alertHref } from "../routes.js";
import { checkbox } from "./forms.js";
import { el, rerender, setText } from "./dom.js";

const KEY = "collapsewatch.notices";
/** Long enough for every tab to have heard of the change. */
const CLAIM_MS = 60_000;

function readChoice() {
  try {
    return parseChoice(localStorage.getItem(KEY));
  } catch {
    return parseChoice(null);
  }
}

const permission = () =>
  "Notification" in window && window.isSecureContext ? Notification.permission : "unsupported";

/**
 * Shows a change in one tab only: the first that gets the lock of its name tells of it, and keeps the lock
 * until the others have tried. The tag is for browsers that know no locks.
 */
export function tellInBrowser(event) {
  const notice = noticeOf(event, readChoice());
  if (notice === null || permission() !== "granted") return;
  if (!("locks" in navigator)) {
    show(notice);
    return;
  }
  navigator.locks
    .request(`collapsewatch.${notice.tag}`, { ifAvailable: true }, async (lock) => {
      if (lock === null) return;
      show(notice);
      await new Promise((resolve) => setTimeout(resolve, CLAIM_MS));
    })
    .catch((error) => console.warn("a notification could not be claimed", error));
}

function show({ title, body, tag, alertId }) {
  try {
    const shown = new Notification(title, { body, tag });
    shown.addEventListener("click", () => {
      window.focus();
      window.location.hash = alertHref(alertId);
      shown.close();
    });
  } catch (error) {
    // Some browsers of phones show none from a page.
    console.warn("a notification could not be shown", error);
  }
}

/** The switch; `setProjects` offers the projects that may be watched. */
export function noticeSwitch() {
  const state = el("p", { class: "card-note", role: "status", data: { testid: "notice-state" } });
  const on = checkbox("Notify me of critical alerts in this browser", { data: { testid: "notice-switch" } });
  const warnings = checkbox("of warnings, too", { data: { testid: "notice-warnings" } });
  const projects = el("fieldset", { class: "snoozes", hidden: true });
  const root = el(
    "section",
    { class: "card alert-card", "aria-label": "Browser notifications", data: { testid: "notices" } },
    el("h2", { class: "card-title", text: "Browser notifications" }),
    state,
    on.root,
    warnings.root,
    projects,
  );
  let names = [];
  const keep = (change) => {
    try {
      localStorage.setItem(KEY, JSON.stringify({ ...readChoice(), ...change }));
    } catch {
      setText(state, "This browser keeps nothing for the page, so the choice cannot be kept.");
      return;
    }
    update();
  };
  const update = () => {
    const choice = readChoice();
    const may = permission();
    setText(state, permissionWords(may, choice));
    on.input.checked = choice.enabled && may === "granted";
    on.input.disabled = may === "unsupported" || may === "denied";
    warnings.input.checked = choice.warnings;
    warnings.input.disabled = !on.input.checked;
    projects.hidden = names.length === 0;
    rerender(projects, JSON.stringify([names, choice, on.input.checked]), () =>
      projectBoxes(names, choice, { disabled: !on.input.checked, keep }),
    );
  };
  on.input.addEventListener("change", async () => {
    // Asked here and nowhere else: a page that asks unbidden is blocked, and rightly.
    const granted = on.input.checked && (await Notification.requestPermission()) === "granted";
    keep({ enabled: granted });
  });
  warnings.input.addEventListener("change", () => keep({ warnings: warnings.input.checked }));
  // Another tab may have changed the choice.
  window.addEventListener("storage", update);
  update();
  return {
    root,
    setProjects(latest) {
      names = latest;
      update();
    },
    destroy: () => window.removeEventListener("storage", update),
  };
}

function projectBoxes(names, choice, { disabled, keep }) {
  const boxes = [...new Set([...names, ...choice.projects])].map((name) => {
    const box = checkbox(name, {
      checked: choice.projects.includes(name),
      disabled,
      data: { focusKey: name },
    });
    box.input.addEventListener("change", () =>
      keep({
        projects: box.input.checked
          ? [...choice.projects, name]
          : choice.projects.filter((each) => each !== name),
      }),
    );
    return box.root;
  });
  return [el("legend", { text: "Only of these projects (none ticked: all, and the service)" }), boxes];
}
