/** What stands in place of the list when there is nothing to list, or nothing could be loaded. */

import { isInNoProject } from "../access.js";
import { runsHref } from "../routes.js";
import { isNarrowed } from "../runs_view.js";
import { notice } from "./components.js";
import { el, rerender } from "./dom.js";
import { button } from "./forms.js";
import { firstRunGuide } from "./first_run.js";

export function runsEmpty() {
  const root = el("div");
  return {
    root,
    update({ view, numShown, counts }) {
      const signature = numShown > 0 ? "" : JSON.stringify([view, counts]);
      rerender(root, signature, () => (numShown > 0 ? [] : [reason(view, counts)]));
    },
  };
}

/** Says why the list is empty and what to do next. */
function reason(view, { active, archived }) {
  if (active + archived === 0 && isInNoProject()) {
    return box("You are in no project yet. Ask an admin of a project for an invitation.", []);
  }
  if (active + archived === 0) return firstRunGuide(view.project);
  const whole = view.archived ? archived : active;
  if (whole > 0 && isNarrowed(view)) {
    return box("No run matches what you are looking for.", [
      link({ ...view, search: "", tag: "", state: "" }, "Take the filters away"),
    ]);
  }
  const words = view.archived
    ? "No run is archived. What you archive leaves the list and stays complete; you find it here."
    : "Every run here is archived.";
  const text = view.archived ? "Show the active runs" : "Show the archived runs";
  return box(words, [link({ ...view, search: "", tag: "", state: "", archived: !view.archived }, text)]);
}

const link = (view, text) => el("a", { class: "button", href: runsHref(view), text });

const box = (text, actions) =>
  el(
    "div",
    { class: "card empty-card", data: { testid: "runs-empty" } },
    el("p", { text }),
    el("div", { class: "controls" }, actions),
  );

/** What could not be loaded; the lines that are there stay. */
export function runsProblem({ retry }) {
  const root = el("div");
  return {
    root,
    clear: () => rerender(root, "", () => []),
    show(error, hasRows) {
      const stays = hasRows ? " What is shown is what was loaded last." : "";
      rerender(root, `${error.message}${stays}`, () => [
        notice(
          "bad",
          el("p", { text: `The list could not be loaded: ${error.message}. Trying again.${stays}` }),
          button("Try now", { small: true, data: { testid: "retry" }, on: { click: retry } }),
        ),
      ]);
    },
  };
}
