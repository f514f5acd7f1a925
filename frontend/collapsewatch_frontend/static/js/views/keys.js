/** Screen: keys of programs. Made here, shown once, revoked here. */

import { isOperator, may } from "../access.js";
import { createKey, getKeys, getProjects, revokeKey } from "../api.js";
import {
  LIFETIMES,
  PURPOSES,
  USUAL_LIFETIME,
  keyState,
  keyWords,
  purposeName,
  sortKeys,
} from "../accounts.js";
import { keysHref } from "../routes.js";
import { keyMark } from "./components.js";
import { el } from "./dom.js";
import { button, choice, confirmLoss, field, openDialog } from "./forms.js";
import { showOnce } from "./once_dialog.js";
import { projectPicker, shownProject } from "./project_picker.js";
import { mountSettingsPart } from "./settings_screen.js";
import { cardTable, textCell } from "./settings_table.js";

const WHOLE = "All projects, and workers";

/** Mounts the screen; returns what the app calls on events, on reconnects and at the end. */
export function mountKeys(host, { route, shell, navigate }) {
  let wanted = route.project;
  let project = null;
  const page = buildPage({
    onProject: (name) => navigate(keysHref({ project: name })),
    place: () => project,
    reload: () => screen.reload(),
  });
  const screen = mountSettingsPart(host, {
    shell,
    id: "keys",
    title: "Keys",
    sub: "By which programs send and read",
    body: page.root,
    load: async () => {
      const projects = (await getProjects()).filter(({ name }) => may("key.edit", name));
      const found = shownProject(projects, wanted, { withWhole: isOperator() });
      return { projects, found, keys: found === null ? [] : await getKeys(found.id) };
    },
    update: ({ projects, found, keys }) => {
      project = found;
      page.update({ names: projects.map(({ name }) => name), project, keys });
    },
    follow: (next) => {
      wanted = next.project;
    },
  });
  return screen;
}

function buildPage({ onProject, place, reload }) {
  const picker = projectPicker({ onChange: onProject, whole: isOperator() ? WHOLE : null });
  const table = cardTable({
    caption: "Keys",
    testid: "keys",
    keyOf: (key) => key.id,
    columns: [
      { name: "Key", cell: nameCell },
      { name: "For", cell: ({ purpose }) => textCell(purposeName(purpose)) },
      {
        name: "State",
        cell: (key) => [keyState(key, Date.now()).id, () => [keyMark(keyState(key, Date.now()))]],
      },
      { name: "Use", wide: true, cell: (key) => textCell(keyWords(key, Date.now(), dayWords)) },
      {
        name: "",
        cell: (key) => [
          String(key.revoked_at),
          () => [el("div", { class: "row-buttons" }, revokeButton(key, { place, reload }))],
        ],
      },
    ],
  });
  const add = button("New key", {
    primary: true,
    data: { testid: "new-key" },
    on: { click: () => openKeyDialog({ project: place(), reload }) },
  });
  const empty = el("p", { class: "card empty-card", data: { testid: "no-keys" }, text: "No key yet." });
  return {
    root: el("div", {}, el("div", { class: "section-head" }, picker.root, add), table.root, empty),
    update({ names, project, keys }) {
      picker.update(names, project?.name ?? "");
      add.hidden = project === null;
      table.root.hidden = keys.length === 0;
      empty.hidden = keys.length > 0;
      table.update(sortKeys(keys, Date.now()));
    },
  };
}

const dayWords = (iso) => new Intl.DateTimeFormat(undefined, { dateStyle: "medium" }).format(new Date(iso));

function nameCell(key) {
  const where = key.project ?? "";
  return [
    `${key.label} ${key.prefix} ${where}`,
    () => [
      el("strong", { class: "card-title", text: key.label }),
      el("code", { class: "faint", text: `${key.prefix}…` }),
      el("span", { class: "faint", text: where }),
    ],
  ];
}

function revokeButton(key, { place, reload }) {
  if (key.revoked_at !== null) return null;
  return button("Revoke", {
    small: true,
    "aria-label": `Revoke ${key.label}`,
    data: { testid: "revoke-key", focusKey: "revoke" },
    on: {
      click: () =>
        confirmLoss({
          title: `Revoke the key “${key.label}”?`,
          text: "Whatever uses it is refused from the next moment on. It cannot be made good again.",
          confirm: "Revoke",
          action: async () => {
            await revokeKey(place().id, key.id);
            reload();
          },
        }),
    },
  });
}

function openKeyDialog({ project, reload }) {
  const purposes = Object.keys(PURPOSES).filter((purpose) => purpose !== "worker" || project.id === null);
  const label = el("input", {
    type: "text",
    maxlength: 200,
    autocomplete: "off",
    data: { testid: "key-label" },
  });
  const purpose = choice(
    purposes.map((id) => ({ id, name: PURPOSES[id].name })),
    { value: "ingest", data: { testid: "key-purpose" } },
  );
  const days = choice(LIFETIMES, { value: USUAL_LIFETIME, data: { testid: "key-days" } });
  const labelField = field({
    label: "What it is for",
    control: label,
    wide: true,
    hint: "So that you know it again.",
  });
  const purposeField = field({ label: "Purpose", control: purpose, hint: PURPOSES.ingest.hint });
  purpose.addEventListener("change", () => purposeField.setHint(PURPOSES[purpose.value].hint));
  openDialog({
    title: project.id === null ? "New key for all projects" : `New key for ${project.name}`,
    confirm: "Make key",
    testid: "key-dialog",
    focus: label,
    children: [
      el(
        "div",
        { class: "fields" },
        labelField.root,
        purposeField.root,
        field({ label: "Ends after", control: days }).root,
      ),
    ],
    submit: async () => {
      labelField.setError(label.value.trim() === "" ? "Say what it is for." : "");
      if (label.value.trim() === "") {
        label.focus();
        return false;
      }
      const draft = {
        purpose: purpose.value,
        label: label.value.trim(),
        days: days.value === "" ? null : Number(days.value),
      };
      const made = await createKey(project.id, draft);
      reload();
      showOnce({
        title: `Key “${made.label}”`,
        label: "Key",
        testid: "key-made",
        value: made.key,
        text: "Copy it now: only its first characters are stored, and it is never shown again.",
        note: "Keep it where passwords are kept. Programs take it from COLLAPSEWATCH_API_KEY.",
      });
      return true;
    },
  });
}
