/** Top of a run's page: which run, is it alive, who scored it, what to compare it with. */

import { may } from "../access.js";
import { backlogHeadline, queueWords } from "../backlog.js";
import { formatAge, formatStep } from "../format.js";
import { rolloutsHref, runsHref } from "../routes.js";
import { lastSeenWords } from "../run_states.js";
import { hidesRollouts } from "../shared.js";
import { stateMark } from "./components.js";
import { el, rerender, setAttribute, setText } from "./dom.js";
import { exportMenu } from "./export_menu.js";
import { icon } from "./icons.js";
import { attemptsLine, earlierToggle } from "./run_attempts.js";
import { scorerParts } from "./scorer_line.js";
import { shareButton } from "./share_dialog.js";

/** `onBacklog` leads to what waits and what was lost, far below. */
export function headPart({ onScope, onScorer, onGhost, onEarlier, onBacklog, scopesOf, compareHref }) {
  const crumbs = el("nav", { class: "crumbs", "aria-label": "Breadcrumb" });
  const name = el("h1", { class: "run-name", data: { testid: "run-name" } });
  const state = el("span");
  const step = el("span", { data: { testid: "run-step" } });
  const age = el("span", { data: { testid: "run-age" } });
  const queue = el("span", { data: { testid: "run-queue" } });
  const backlog = el("span", { class: "head-links" });
  const seen = el("span", { class: "last-seen", data: { testid: "run-last-seen" } });
  const attempts = attemptsLine();
  const scorer = el("p", { class: "scorer", data: { testid: "scorer" } });
  const scope = picker("Scope", "scope-picker", onScope);
  const scoredBy = picker("Scorer", "scorer-picker", onScorer);
  const ghost = picker("Overlay", "ghost-picker", onGhost);
  const earlier = earlierToggle(onEarlier);
  const compare = el(
    "a",
    { class: "button", data: { testid: "compare-link" } },
    icon("compare"),
    el("span", { text: "Compare" }),
  );
  const rollouts = el(
    "a",
    { class: "button", hidden: hidesRollouts(), data: { testid: "rollouts-link" } },
    icon("open_book"),
    el("span", { text: "Rollouts" }),
  );
  const files = exportMenu();
  let shown = null;
  const share = shareButton(() => ({ kind: "run", runIds: [shown.run_id], title: shown.name }));
  const root = el(
    "div",
    { class: "page-head run-head" },
    el(
      "div",
      { class: "run-head-text" },
      crumbs,
      name,
      el("p", { class: "facts-line" }, state, seen, step, age, queue, backlog),
      scorer,
      attempts.root,
    ),
    el("div", { class: "controls" }, scope.root, scoredBy.root, ghost.root, earlier.root, rollouts, compare, files.root, share),
  );
  return {
    root,
    tick({ data }) {
      if (data.summary === null) return;
      setText(seen, lastSeenWords(data.summary, Date.now()));
      setText(age, `updated ${formatAge(data.summary.updated_at, Date.now())}`);
    },
    update({ data, siblings, ghostId }) {
      const { summary } = data;
      shown = summary;
      share.hidden = !may("run.share", summary.project);
      files.update([summary.run_id], data.scope);
      rerender(crumbs, summary.project, () => [
        el("a", { href: runsHref(), text: "Runs" }),
        el("span", { "aria-hidden": "true", text: "/" }),
        el("a", { href: runsHref({ project: summary.project }), text: summary.project }),
      ]);
      setText(name, summary.name);
      setAttribute(rollouts, "href", rolloutsHref(summary.run_id));
      rerender(state, summary.state, () => [stateMark(summary.state)]);
      setText(step, summary.last_step === null ? "no batch yet" : `step ${formatStep(summary.last_step)}`);
      setText(queue, queueWords(summary));
      showBacklog(backlog, backlogHeadline(summary), onBacklog);
      attempts.update(summary.attempts);
      earlier.update(data);
      showScorer(scorer, {
        scorer: summary.scorer,
        sampling: summary.samplings?.[data.scope] ?? null,
        reason: summary.absent?.[data.scope] ?? null,
      });
      scope.show(
        scopesOf(summary).map((value) => ({ value, text: value.replace(/_/g, " ") })),
        data.scope,
      );
      const scorers = data.scorers();
      scoredBy.show(
        [{ value: "", text: "all" }, ...scorers.map((label) => ({ value: label, text: label }))],
        data.scorer,
      );
      scoredBy.root.hidden = scorers.length < 2;
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

/** One link per thing that waits or was lost; each leads to what it means. */
function showBacklog(host, lines, onBacklog) {
  rerender(host, JSON.stringify(lines), () =>
    lines.map(({ id, tone, short }) =>
      el("button", {
        class: `link-button${tone === "warning" ? " link-warning" : ""}`,
        type: "button",
        data: { testid: `run-${id}`, focusKey: id },
        on: { click: onBacklog },
        text: short,
      }),
    ),
  );
}

/** Who scored what; before anything is scored, why the newest batch was not. */
function showScorer(host, { scorer, sampling, reason }) {
  rerender(host, JSON.stringify([scorer, sampling, reason]), () => {
    if (scorer === null) {
      return [el("span", { text: reason === null ? "Not scored yet" : `Not scored yet: ${reason}` })];
    }
    return scorerParts(scorer, sampling);
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
