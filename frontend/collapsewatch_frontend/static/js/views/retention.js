/** Screen: how long a project keeps what it has. */

import { may } from "../access.js";
import { getProjects, getRetention, setRetention } from "../api.js";
import {
  LEAST_DAYS,
  daysOf,
  daysText,
  dueWords,
  removesMore,
  retentionLines,
  sentence,
} from "../accounts.js";
import { retentionHref } from "../routes.js";
import { el, rerender, setText } from "./dom.js";
import { button, confirmLoss, field } from "./forms.js";
import { projectPicker, shownProject } from "./project_picker.js";
import { mountSettingsPart } from "./settings_screen.js";

/** Mounts the screen; returns what the app calls on events, on reconnects and at the end. */
export function mountRetention(host, { route, shell, navigate }) {
  let wanted = route.project;
  const page = buildPage({
    onProject: (name) => navigate(retentionHref({ project: name })),
    reload: () => screen.reload(),
  });
  const screen = mountSettingsPart(host, {
    shell,
    id: "retention",
    title: "What is kept",
    sub: "How long a project keeps texts and runs",
    body: page.root,
    load: async () => {
      const projects = (await getProjects()).filter(({ name }) => may("retention.edit", name));
      const project = shownProject(projects, wanted);
      return { projects, project, kept: project === null ? null : await getRetention(project.id) };
    },
    update: page.update,
    follow: (next) => {
      wanted = next.project;
    },
  });
  return screen;
}

function buildPage({ onProject, reload }) {
  const picker = projectPicker({ onChange: onProject });
  const form = retentionForm({ reload });
  const none = el("p", {
    class: "card empty-card",
    data: { testid: "no-project" },
    text: "There is no project yet. One appears with its first run.",
  });
  return {
    root: el("div", {}, el("div", { class: "section-head" }, picker.root), none, form.root),
    update({ projects, project, kept }) {
      none.hidden = project !== null;
      form.root.hidden = project === null;
      if (project === null) return;
      picker.update(
        projects.map(({ name }) => name),
        project.name,
      );
      form.update(project, kept);
    },
  };
}

const daysInput = (testid) =>
  el("input", {
    type: "text",
    inputmode: "decimal",
    autocomplete: "off",
    placeholder: "for ever",
    data: { testid },
  });

/** What the form is made of. */
function formParts() {
  const inputs = { text_days: daysInput("text-days"), run_days: daysInput("run-days") };
  const fields = {
    text_days: field({
      label: "Prompts and responses, in days",
      control: inputs.text_days,
      hint: "Empty: as long as the run.",
    }),
    run_days: field({
      label: "Runs that have ended, in days",
      control: inputs.run_days,
      hint: "Empty: until somebody deletes them.",
    }),
  };
  const title = el("h2", { class: "card-title" });
  const words = el("ul", { class: "retention-words", data: { testid: "retention-words" } });
  const due = el("p", { class: "attention", data: { testid: "retention-due" } });
  const said = el("p", { class: "inbox-said", role: "status", data: { testid: "retention-said" } });
  const undo = button("Undo");
  const done = el("button", {
    class: "button button-primary",
    type: "submit",
    text: "Save",
    data: { testid: "save-retention" },
  });
  const root = el(
    "form",
    { class: "card retention-card", novalidate: true, data: { testid: "retention" } },
    title,
    el("div", { class: "fields" }, fields.text_days.root, fields.run_days.root),
    words,
    due,
    el("div", { class: "controls" }, done, undo),
    said,
  );
  return { root, inputs, fields, title, words, due, said, undo, done };
}

const typed = ({ inputs }) => ({
  text_days: daysOf(inputs.text_days.value),
  run_days: daysOf(inputs.run_days.value),
});
const isWhole = (choice) => Object.values(choice).every((days) => days !== undefined);

/** Says what the choice that stands in the form would remove, or what is wrong with it. */
function showChoice(parts, kept) {
  const choice = typed(parts);
  for (const [name, each] of Object.entries(parts.fields)) {
    each.setError(choice[name] === undefined ? `A number of days, ${LEAST_DAYS} or more; or nothing.` : "");
  }
  const lines = isWhole(choice) ? retentionLines(choice) : [];
  rerender(parts.words, JSON.stringify(lines), () => lines.map((text) => el("li", { text })));
  parts.undo.disabled = isSame(choice, kept);
  parts.done.disabled = !isWhole(choice) || isSame(choice, kept);
}

function retentionForm({ reload }) {
  let project = null;
  let kept = null;
  const parts = formParts();
  const { root, inputs, title, due, said, undo, done } = parts;
  const fill = () => {
    for (const [name, input] of Object.entries(inputs)) input.value = daysText(kept?.[name]);
    showChoice(parts, kept);
  };
  const save = async (choice) => {
    try {
      await setRetention(project.id, choice);
      setText(said, `Saved for ${project.name}.`);
      kept = null;
    } catch (error) {
      setText(said, sentence(error.message));
    }
    reload();
  };
  undo.addEventListener("click", fill);
  root.addEventListener("input", () => showChoice(parts, kept));
  root.addEventListener("submit", (event) => {
    event.preventDefault();
    const choice = typed(parts);
    if (done.disabled || !isWhole(choice)) return;
    setText(said, "");
    if (removesMore(chosenOf(kept), choice)) confirmRemoval(project, choice, () => save(choice));
    else save(choice);
  });
  return {
    root,
    /** What somebody is typing stays, until it is saved or another project is shown. */
    update(shown, latest) {
      const isNew = project?.id !== shown.id || kept === null || !isSame(chosenOf(latest), kept);
      if (project?.id !== shown.id) setText(said, "");
      project = shown;
      kept = latest;
      setText(title, shown.name);
      setText(due, dueWords(latest));
      if (isNew) fill();
    },
  };
}

const chosenOf = (kept) => ({ text_days: kept?.text_days ?? null, run_days: kept?.run_days ?? null });
const isSame = (choice, kept) => JSON.stringify(choice) === JSON.stringify(chosenOf(kept));

function confirmRemoval(project, choice, action) {
  confirmLoss({
    title: `Keep less of ${project.name}?`,
    text: `${retentionLines(choice).join(" ")} What is older already goes within minutes; nobody can bring it back.`,
    confirm: "Keep less",
    action,
  });
}
