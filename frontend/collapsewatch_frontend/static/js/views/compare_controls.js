/** What a comparison can be shown by: turns, groups, axis; and the legend that all its charts share. */

import { formatStep, plural, shortName } from "../format.js";
import { AXES, BY_SEEDS } from "../compare_choice.js";
import { scoredScopes } from "../panels.js";
import { compareKey } from "./compare_key.js";
import { el, rerender, setAttribute } from "./dom.js";

const NAME_LENGTH = 44;
/** A pointer that only passes over the legend changes nothing. */
const REST_MS = 90;
const AXIS_WORDS = { step: "Steps", time: "Time", tokens: "Tokens" };
const AXIS_HINTS = {
  step: "Runs stand at their training steps.",
  time: "Runs stand at the time since their first step was logged.",
  tokens: "Runs stand at the tokens that their trainer counted.",
};

/** Turns and groups, at the head of the page; `change(patch)` takes what was chosen. */
export function comparisonControls({ change }) {
  const scope = select("compare-scope", (value) => change({ scope: value }));
  const group = select("compare-group", (value) =>
    change({ groupBy: value === "" ? [] : value.split("\n") }),
  );
  const band = select("compare-band", (value) => change({ band: value }));
  const scopeRoot = control("Turns", scope);
  const bandRoot = control("Around the mean", band);
  const root = el("div", { class: "controls" }, scopeRoot, control("Lines", group), bandRoot);
  return {
    root,
    /** `keys`: settings by which the runs can be grouped. */
    update({ scopes, scope: shown, choice, keys, hasGroups }) {
      const scored = scoredScopes(scopes);
      scopeRoot.hidden = scored.length < 2;
      options(
        scope,
        scored.map((name) => ({ value: name, text: name.replace(/_/g, " ") })),
        shown,
      );
      const value = choice.groupBy.join("\n");
      const grouped = [
        { value: "", text: "Each run" },
        { value: BY_SEEDS, text: "Mean over seeds" },
        ...keys.map((key) => ({ value: key, text: `Mean by ${key}` })),
      ];
      if (!grouped.some((option) => option.value === value)) {
        grouped.push({ value, text: `Mean by ${choice.groupBy.join(", ")}` });
      }
      options(group, grouped, value);
      bandRoot.hidden = !hasGroups;
      options(
        band,
        [
          { value: "interval", text: "95 % interval" },
          { value: "range", text: "Lowest to highest run" },
          { value: "none", text: "Nothing" },
        ],
        choice.band,
      );
    },
  };
}

function select(testid, onChange) {
  const node = el("select", { data: { testid } });
  node.addEventListener("change", () => onChange(node.value));
  return node;
}

function control(label, node) {
  return el("label", { class: "control" }, el("span", { class: "control-label", text: label }), node);
}

function options(node, all, value) {
  rerender(node, JSON.stringify(all), () => all.map(({ text, ...rest }) => el("option", { ...rest, text })));
  if (node.value !== value) node.value = value;
}

/** The axis of all charts, as the bar of chart tools takes it. */
export function axisSwitch({ change }) {
  const state = { axis: "step", cannot: {} };
  const buttons = AXES.map((axis) =>
    el("button", {
      class: "segment",
      type: "button",
      text: AXIS_WORDS[axis],
      data: { testid: `compare-axis-${axis}` },
      on: { click: () => change({ axis }) },
    }),
  );
  const show = () =>
    AXES.forEach((axis, i) => {
      const reason = state.cannot[axis] ?? null;
      buttons[i].disabled = reason !== null && axis !== state.axis;
      buttons[i].title = reason ?? AXIS_HINTS[axis];
      setAttribute(buttons[i], "aria-pressed", String(axis === state.axis));
    });
  return {
    root: el("span", { class: "segments", role: "group", "aria-label": "Horizontal axis" }, buttons),
    show,
    /** `cannot` says of an axis why no run has a place on it. */
    update(axis, cannot) {
      Object.assign(state, { axis, cannot });
      show();
    },
  };
}

/** One button for each run or group: pressed while it is drawn; what the pointer rests on stands out. */
export function compareLegend({ onToggle, onEmphasis }) {
  const root = el("div", {
    class: "compare-legend",
    role: "group",
    "aria-label": "Runs in the charts",
    data: { testid: "compare-legend" },
  });
  let timer = null;
  const point = (name) => {
    clearTimeout(timer);
    timer = setTimeout(() => onEmphasis(name), REST_MS);
  };
  return {
    root,
    /** `items`: `{key, name, style, isOn, numRuns?}`. */
    update(items) {
      rerender(root, JSON.stringify(items), () =>
        items.map((item) =>
          el(
            "button",
            {
              class: "legend-chip",
              type: "button",
              "aria-pressed": String(item.isOn),
              title: item.isOn ? `${item.name}: press to hide` : `${item.name}: hidden, press to show`,
              data: { focusKey: `legend ${item.key}`, testid: "legend-chip" },
              on: {
                click: () => onToggle(item),
                pointerenter: () => point(item.isOn ? item.name : null),
                pointerleave: () => point(null),
                focus: () => point(item.isOn ? item.name : null),
                blur: () => point(null),
              },
            },
            compareKey(item.style),
            el("span", { text: shortName(item.name, NAME_LENGTH) }),
            item.numRuns === undefined
              ? null
              : el("span", {
                  class: "faint",
                  text: `${formatStep(item.numRuns)}×`,
                  title: plural(item.numRuns, "run"),
                }),
          ),
        ),
      );
    },
    destroy: () => clearTimeout(timer),
  };
}
