/** Which project a part of the settings is about. */

import { el } from "./dom.js";
import { choice, setOptions } from "./forms.js";

/** Of the whole service, where somebody may decide about that. */
export const EVERYWHERE = "";

/**
 * `onChange(name)` is called with the project that was chosen. `whole` names what stands for all projects
 * together; without it there is no such choice.
 */
export function projectPicker({ onChange, whole = null }) {
  const select = choice([], {
    data: { testid: "settings-project" },
    on: { change: () => onChange(select.value) },
  });
  const root = el(
    "label",
    { class: "control" },
    el("span", { class: "control-label", text: "Project" }),
    select,
  );
  return {
    root,
    /** Shows the names, with the one that is looked at. */
    update(names, project) {
      const options = names.map((name) => ({ id: name, name }));
      const all = whole === null ? options : [{ id: EVERYWHERE, name: whole }, ...options];
      if (JSON.stringify(all) !== select.dataset.options) {
        select.dataset.options = JSON.stringify(all);
        setOptions(select, all);
      }
      select.value = project;
      root.hidden = all.length < 2;
    },
  };
}

/**
 * The project that a part shows: the one of the address, else the first in which it may be used; null where
 * there is none. `withWhole` where all together can be shown as well, and come first.
 */
export function shownProject(projects, name, { withWhole = false } = {}) {
  if (name === EVERYWHERE && withWhole) return { id: null, name: EVERYWHERE };
  return (
    projects.find((project) => project.name === name) ?? (name === EVERYWHERE ? (projects[0] ?? null) : null)
  );
}
