/** The starts of the training behind a run: a line in its head, and whether the figures show earlier ones. */

import { attemptWords, attemptsWords, drawnAttempts } from "../attempts.js";
import { formatAge } from "../format.js";
import { el, rerender } from "./dom.js";
import { icon } from "./icons.js";

/** `2 attempts; resumed at step 50`, which opens into the list; hidden for a run that was started once. */
export function attemptsLine() {
  const words = el("span", { data: { testid: "attempts-words" } });
  const list = el("ol", { class: "attempt-list" });
  const root = el(
    "details",
    { class: "attempts", hidden: true, data: { testid: "attempts" } },
    el("summary", {}, icon("resume", 14), words),
    list,
  );
  return {
    root,
    update(attempts = []) {
      root.hidden = attempts.length < 2;
      rerender(words, attemptsWords(attempts), () => [attemptsWords(attempts)]);
      rerender(list, JSON.stringify(attempts), () =>
        attempts.map((attempt) =>
          el(
            "li",
            {},
            el("span", { text: attemptWords(attempt) }),
            el("span", { class: "faint", text: `started ${formatAge(attempt.started_at, Date.now())}` }),
          ),
        ),
      );
    },
  };
}

/** A checkbox; hidden when no attempt superseded anything. */
export function earlierToggle(onChange) {
  const box = el("input", {
    type: "checkbox",
    data: { testid: "earlier-toggle" },
    on: { change: () => onChange(box.checked) },
  });
  const key = el("span", { class: "legend-key legend-dotted", "aria-hidden": "true" });
  const root = el(
    "label",
    {
      class: "control control-check",
      hidden: true,
      title: "What earlier attempts logged and a later one replayed: faint, dotted, not part of the run.",
    },
    box,
    key,
    el("span", { class: "control-label", text: "Earlier attempts" }),
  );
  return {
    root,
    update(data) {
      root.hidden = drawnAttempts(data.summary.attempts).length === 0;
      box.checked = data.showsEarlier;
    },
  };
}
