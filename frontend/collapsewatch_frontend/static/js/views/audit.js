/** Screen: who did what, and when. */

import { isOperator, may } from "../access.js";
import { auditHref, getAudit, getProjects } from "../api.js";
import { outcomeState } from "../accounts.js";
import { auditPageHref } from "../routes.js";
import { outcomeMark } from "./components.js";
import { el, setAttribute } from "./dom.js";
import { button, choice } from "./forms.js";
import { icon } from "./icons.js";
import { projectPicker, shownProject } from "./project_picker.js";
import { mountSettingsPart } from "./settings_screen.js";
import { cardTable, textCell } from "./settings_table.js";
import { momentWords } from "./shared_shell.js";

const PAGE_SIZE = 100;
/** Kinds of what is done: the server takes what stands before the point for all of that kind. */
const KINDS = [
  { id: "", name: "Everything" },
  { id: "session", name: "Signing in and out" },
  { id: "account", name: "Accounts" },
  { id: "password", name: "Passwords" },
  { id: "invitation", name: "Invitations" },
  { id: "member", name: "Members" },
  { id: "key", name: "Keys" },
  { id: "run", name: "Runs" },
  { id: "job", name: "Batches to score" },
  { id: "share", name: "Shared links" },
  { id: "alert", name: "Alerts" },
  { id: "rule", name: "Rules" },
  { id: "detector", name: "Rules that come with the program" },
  { id: "channel", name: "Channels" },
  { id: "retention", name: "What is kept" },
  { id: "audit", name: "The audit log" },
];

/** Mounts the screen; returns what the app calls on events, on reconnects and at the end. */
export function mountAudit(host, { route, shell, navigate }) {
  const view = { project: route.project, action: route.action, wanted: PAGE_SIZE };
  const page = buildPage({
    view,
    onChange: (change) => navigate(auditPageHref({ project: view.project, action: view.action, ...change })),
    onMore: () => {
      view.wanted += PAGE_SIZE;
      screen.reload();
    },
  });
  const screen = mountSettingsPart(host, {
    shell,
    id: "audit",
    title: "Audit",
    sub: "Who did what, the newest first",
    body: page.root,
    load: () => loadEntries(view),
    update: page.update,
    follow: (next) => {
      Object.assign(view, { project: next.project, action: next.action, wanted: PAGE_SIZE });
    },
  });
  return screen;
}

async function loadEntries(view) {
  const projects = (await getProjects()).filter(({ name }) => may("audit.read", name));
  const project = shownProject(projects, view.project, { withWhole: true });
  const choice = { project_id: project?.id ?? undefined, action: view.action };
  const entries = [];
  let before;
  do {
    const limit = Math.min(PAGE_SIZE, view.wanted - entries.length);
    const answer = await getAudit({ ...choice, before_id: before, limit });
    entries.push(...answer.entries);
    before = answer.next_before_id;
  } while (before !== null && entries.length < view.wanted);
  return { projects, entries, hasMore: before !== null, choice };
}

function buildPage({ view, onChange, onMore }) {
  const whole = isOperator() ? "All projects, and the service" : "All my projects";
  const picker = projectPicker({ whole, onChange: (project) => onChange({ project }) });
  const action = choice(KINDS, {
    data: { testid: "audit-action" },
    on: { change: () => onChange({ action: action.value }) },
  });
  const file = el(
    "a",
    { class: "button", download: "", data: { testid: "audit-csv" } },
    icon("download", 15),
    el("span", { text: "CSV" }),
  );
  const table = cardTable({
    caption: "What was done",
    testid: "audit",
    keyOf: (entry) => entry.id,
    columns: COLUMNS,
  });
  const empty = el("p", {
    class: "card empty-card",
    data: { testid: "no-audit" },
    text: "Nothing of this kind was done yet.",
  });
  const more = button("Show older", { data: { testid: "audit-more" }, on: { click: onMore } });
  return {
    root: el(
      "div",
      {},
      el(
        "div",
        { class: "controls audit-controls" },
        picker.root,
        el("label", { class: "control" }, el("span", { class: "control-label", text: "What" }), action),
        file,
      ),
      table.root,
      empty,
      el("p", { class: "settings-add" }, more),
    ),
    update({ projects, entries, hasMore, choice: asked }) {
      picker.update(
        projects.map(({ name }) => name),
        view.project,
      );
      action.value = view.action;
      setAttribute(file, "href", auditHref(asked));
      table.root.hidden = entries.length === 0;
      empty.hidden = entries.length > 0;
      more.hidden = !hasMore;
      table.update(entries);
    },
  };
}

const COLUMNS = [
  {
    name: "When",
    cell: ({ at }) => [at, () => [el("span", { class: "audit-when", title: at, text: momentWords(at) })]],
  },
  { name: "Who", cell: ({ actor }) => textCell(actor) },
  {
    name: "What",
    cell: ({ action }) => [action, () => [el("span", { title: action, text: actionName(action) })]],
  },
  { name: "Outcome", cell: ({ outcome }) => [outcome, () => [outcomeMark(outcomeState(outcome))]] },
  {
    name: "To what",
    wide: true,
    cell: ({ target }) => [target, () => [el("span", { class: "cell-link", text: target })]],
  },
  { name: "Project", cell: ({ project }) => textCell(project ?? "") },
  { name: "From", cell: ({ address }) => [address, () => [el("code", { text: address })]] },
];

function actionName(action) {
  const [about, ...rest] = action.split(".");
  return `${about[0].toUpperCase()}${about.slice(1)}: ${rest.join(" ").replace(/_/g, " ")}`;
}
