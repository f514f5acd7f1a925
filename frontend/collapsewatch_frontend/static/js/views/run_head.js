/** Top of a run's page: which run, is it alive, who scored it, what to compare it with. */

import { formatAge, formatStep, plural, scorerWords } from "../format.js";
import { runsHref } from "../routes.js";
import { stateMark } from "./components.js";
import { el, rerender, setAttribute, setText } from "./dom.js";
import { icon } from "./icons.js";

/** `onDead` leads to the batches that could not be scored, far below. */
export function headPart({ onScope, onGhost, onDead, scopesOf, compareHref }) {
  const crumbs = el("nav", { class: "crumbs", "aria-label": "Breadcrumb" });
  const name = el("h1", { class: "run-name", data: { testid: "run-name" } });
  const state = el("span");
  const step = el("span", { data: { testid: "run-step" } });
  const age = el("span", { data: { testid: "run-age" } });
  const queue = el("span", { data: { testid: "run-queue" } });
  const dead = el("button", {
    class: "link-button link-warning",
    type: "button",
    hidden: true,
    data: { testid: "run-dead" },
    on: { click: onDead },
  });
  const scorer = el("p", { class: "scorer", data: { testid: "scorer" } });
  const scope = picker("Scope", "scope-picker", onScope);
  const ghost = picker("Overlay", "ghost-picker", onGhost);
  const compare = el(
    "a",
    { class: "button", data: { testid: "compare-link" } },
    icon("compare"),
    el("span", { text: "Compare" }),
  );
  const root = el(
    "div",
    { class: "page-head run-head" },
    el(
      "div",
      { class: "run-head-text" },
      crumbs,
      name,
      el("p", { class: "facts-line" }, state, step, age, queue, dead),
      scorer,
    ),
    el("div", { class: "controls" }, scope.root, ghost.root, compare),
  );
  return {
    root,
    tick({ data }) {
      if (data.summary !== null) setText(age, `updated ${formatAge(data.summary.updated_at, Date.now())}`);
    },
    update({ data, siblings, ghostId }) {
      const { summary } = data;
      rerender(crumbs, summary.project, () => [
        el("a", { href: runsHref(), text: "Runs" }),
        el("span", { "aria-hidden": "true", text: "/" }),
        el("a", { href: runsHref({ project: summary.project }), text: summary.project }),
      ]);
      setText(name, summary.name);
      rerender(state, summary.state, () => [stateMark(summary.state)]);
      setText(step, summary.last_step === null ? "no batch yet" : `step ${formatStep(summary.last_step)}`);
      setText(queue, queueText(summary));
      const numDead = data.deadJobs.length;
      dead.hidden = numDead === 0;
      setText(dead, `${plural(numDead, "batch", "batches")} could not be scored`);
      showScorer(scorer, summary.scorer);
      scope.show(
        scopesOf(summary).map((value) => ({ value, text: value.replace(/_/g, " ") })),
        data.scope,
      );
      scope.root.hidden = scopesOf(summary).length < 2;
      ghost.show(
        [{ value: "", text: "none" }, ...siblings.map((run) => ({ value: run.run_id, text: run.name }))],
        ghostId,
      );
      ghost.root.hidden = siblings.length === 0;
      const partner = ghostId || siblings[0]?.run_id;
      compare.hidden = partner === undefined;
      if (partner !== undefined) setAttribute(compare, "href", compareHref([summary.run_id, partner]));
    },
  };
}

/** What the scoring has not reached yet; silent when it keeps up. */
function queueText({ jobs, last_step: lastStep, regime }) {
  const waiting = (jobs?.queued ?? 0) + (jobs?.leased ?? 0);
  if (waiting === 0) return "";
  const behind = regime !== null && lastStep !== null && regime.step < lastStep;
  return `${plural(waiting, "batch", "batches")} being scored${behind ? `, scored up to step ${formatStep(regime.step)}` : ""}`;
}

function showScorer(host, scorer) {
  rerender(host, JSON.stringify(scorer), () => {
    if (scorer === null) return [el("span", { text: "Not scored yet" })];
    const role = scorer.is_policy
      ? "policy: estimates the policy’s own I(X;Z)"
      : "proxy: not the policy’s own I(X;Z)";
    return [
      el("span", { text: "Scored by " }),
      el("strong", { text: scorerWords(scorer) }),
      el("span", { class: `chip ${scorer.is_policy ? "chip-good" : "chip-warn"}`, text: role }),
      scorer.retokenised
        ? el("span", {
            class: "chip chip-warn",
            title: "The text was tokenised again, so the scorer may differ from the sampler.",
            text: "re-tokenised",
          })
        : null,
    ];
  });
}

function picker(label, testid, onChange) {
  const select = el("select", { data: { testid }, on: { change: () => onChange(select.value) } });
  const root = el("label", { class: "control" }, el("span", { class: "control-label", text: label }), select);
  return {
    root,
    show(options, chosen) {
      rerender(select, JSON.stringify([options, chosen]), () =>
        options.map((option) => el("option", { ...option, selected: option.value === chosen })),
      );
    },
  };
}
