/** Top of the screen of rollouts: which run and step, the way to other steps, and the search. */

import { formatStep } from "../format.js";
import { ORDERS, PLACES, stepFacts } from "../rollouts.js";
import { runHref, runsHref } from "../routes.js";
import { el, rerender, setAttribute, setText } from "./dom.js";
import { choice } from "./forms.js";
import { icon } from "./icons.js";

const TYPING_MS = 350;

export function rolloutHead({ goTo }) {
  const crumbs = el("nav", { class: "crumbs", "aria-label": "Breadcrumb" });
  const title = el("h1", { text: "Rollouts", data: { testid: "rollouts-title" } });
  const facts = el("p", { class: "page-sub", role: "status", data: { testid: "rollouts-facts" } });
  const steps = stepControls(goTo);
  const search = searchControls(goTo);
  const order = choice(ORDERS, {
    "aria-label": "Order",
    data: { testid: "rollout-order" },
    on: { change: () => goTo({ order: order.value }) },
  });
  const group = el("span", { class: "rollout-group", hidden: true });
  const root = el(
    "div",
    { class: "rollouts-head" },
    el(
      "div",
      { class: "page-head" },
      el("div", { class: "run-head-text" }, crumbs, title, facts),
      steps.root,
    ),
    el(
      "div",
      { class: "controls rollouts-controls" },
      search.root,
      el("label", { class: "control" }, el("span", { class: "control-label", text: "Order" }), order),
      group,
    ),
  );
  return {
    root,
    focusSearch: search.focus,
    update({ choice: chosen, data }) {
      const list = data.list.value;
      rerender(crumbs, JSON.stringify([data.run.value?.name, data.run.value?.project]), () =>
        crumbLinks(chosen, data.run.value),
      );
      setText(title, chosen.step === null ? "Rollouts" : `Rollouts of step ${formatStep(chosen.step)}`);
      setText(facts, list === null ? "" : stepFacts(list));
      steps.update(chosen, list);
      search.update(chosen);
      order.value = chosen.order;
      rerender(group, chosen.group, () => groupChip(chosen.group, goTo));
      group.hidden = chosen.group === "";
    },
  };
}

function crumbLinks({ runId, step }, run) {
  const slash = () => el("span", { "aria-hidden": "true", text: "/" });
  return [
    el("a", { href: runsHref(), text: "Runs" }),
    slash(),
    run === null ? null : el("a", { href: runsHref({ project: run.project }), text: run.project }),
    run === null ? null : slash(),
    el("a", { href: runHref(runId, { step }), text: run?.name ?? runId, data: { testid: "rollouts-run" } }),
  ];
}

/** Back, forth, to a number, to the newest. */
function stepControls(goTo) {
  const button = (name, label, testid) =>
    el(
      "button",
      { class: "button", type: "button", "aria-label": label, title: label, data: { testid } },
      icon(name, 14),
    );
  const previous = button("previous", "Previous step with rollouts ([)", "previous-step");
  const next = button("next", "Next step with rollouts (])", "next-step");
  const newest = el("button", {
    class: "button",
    type: "button",
    text: "Newest",
    data: { testid: "newest-step" },
  });
  const number = el("input", {
    class: "step-number",
    type: "number",
    min: 0,
    step: 1,
    "aria-label": "Step",
    data: { testid: "step-number" },
    on: {
      change: () => {
        if (number.validity.valid && number.value !== "")
          goTo({ step: Number(number.value), index: null }, { isPlace: true });
      },
    },
  });
  const go = (step) => () => {
    if (step() !== null) goTo({ step: step(), index: null });
  };
  let list = null;
  previous.addEventListener(
    "click",
    go(() => list?.previous_step ?? null),
  );
  next.addEventListener(
    "click",
    go(() => list?.next_step ?? null),
  );
  newest.addEventListener(
    "click",
    go(() => list?.last_step ?? null),
  );
  const root = el(
    "div",
    { class: "controls step-controls", role: "group", "aria-label": "Step" },
    previous,
    el("label", { class: "control" }, el("span", { class: "control-label", text: "Step" }), number),
    next,
    newest,
  );
  return {
    root,
    update(chosen, shown) {
      list = shown;
      setAttribute(previous, "disabled", (shown?.previous_step ?? null) === null);
      setAttribute(next, "disabled", (shown?.next_step ?? null) === null);
      setAttribute(newest, "disabled", shown === null || shown.step === shown.last_step);
      if (document.activeElement !== number) number.value = chosen.step === null ? "" : String(chosen.step);
    },
  };
}

function searchControls(goTo) {
  let timer = null;
  const ask = () => {
    clearTimeout(timer);
    goTo({ text: input.value, where: where.value });
  };
  const input = el("input", {
    type: "search",
    placeholder: "Search the rollouts of all steps",
    autocomplete: "off",
    maxlength: 200,
    "aria-label": "Search the rollouts of all steps",
    data: { testid: "rollout-search" },
    on: {
      input: () => {
        clearTimeout(timer);
        timer = setTimeout(ask, TYPING_MS);
      },
      keydown: (event) => {
        if (event.key === "Enter") ask();
        if (event.key === "Escape") input.blur();
      },
    },
  });
  const where = choice(PLACES, {
    "aria-label": "Where to search",
    data: { testid: "rollout-where" },
    on: { change: ask },
  });
  return {
    root: el("div", { class: "control control-wide rollout-search", role: "search" }, input, where),
    focus: () => input.focus(),
    update({ text, where: place }) {
      if (document.activeElement !== input) input.value = text;
      where.value = place;
    },
  };
}

function groupChip(group, goTo) {
  if (group === "") return [];
  return [
    el("span", { class: "chip", text: `prompt ${group}`, data: { testid: "rollout-group" } }),
    el("button", {
      class: "link-button",
      type: "button",
      on: { click: () => goTo({ group: "", index: null }) },
      text: "all prompts",
    }),
  ];
}
