/** The form of a rule, which tells at which steps of the runs that are there it would have fired. */

import { may } from "../access.js";
import { previewRule } from "../api.js";
import {
  EMPTY_RULE,
  OPERATORS,
  USUAL_SCOPES,
  episodeWords,
  fieldErrors,
  formOf,
  isRelative,
  previewWords,
  ruleOf,
} from "../alert_rules.js";
import { formatStep } from "../format.js";
import { runHref } from "../routes.js";
import { button, checkbox, choice, fieldSet, openDialog } from "./forms.js";
import { el, rerender, setText } from "./dom.js";

const SEVERITY_CHOICES = [
  { id: "info", name: "Note" },
  { id: "warning", name: "Warning" },
  { id: "critical", name: "Critical" },
];
const MAX_RUNS = 20;
const MAX_EPISODES = 12;

/** `save(rule)` stores it; `onDone()` is called once it is. */
export function openRuleDialog({ title, rule = null, projects, metricsInfo, save, onDone }) {
  const form = rule === null ? { ...EMPTY_RULE, project: firstProject(projects) } : formOf(rule);
  const fields = ruleFields({ form, projects, metricsInfo });
  const preview = previewPart(fields);
  openDialog({
    title,
    confirm: "Save",
    testid: "rule-dialog",
    focus: fields.first,
    children: [fields.root, preview.root],
    submit: async () => {
      fields.showErrors({});
      try {
        await save(fields.rule());
      } catch (error) {
        return fields.showErrors(fieldErrors(error, fields.names));
      }
      onDone();
      return true;
    },
  });
}

const LABELS = {
  name: ["Name", "The title of its alerts."],
  metric: ["Metric", "Such as retrieval_accuracy, or whatever the trainer logs."],
  scope: ["Scope", "trainer for what the trainer logs, batch for rewards and lengths."],
  operator: ["Condition", ""],
  threshold: ["Threshold", ""],
  for_evaluations: ["Evaluations in a row", ""],
  severity: ["Severity", ""],
  project: ["Project", ""],
  tag: ["Only runs with the tag", "All when empty."],
  run: ["Only the run with the id", "All when empty."],
};

function ruleControls(projects, own) {
  const text = (name, props = {}) =>
    el("input", { type: "text", autocomplete: "off", data: { testid: `rule-${name}` }, ...props });
  const number = (name) => text(name, { inputmode: "decimal" });
  return {
    name: text("name", { maxlength: 200, required: true }),
    metric: text("metric", { list: "rule-metrics", required: true }),
    scope: text("scope", { list: "rule-scopes" }),
    operator: choice(OPERATORS, { data: { testid: "rule-operator" } }),
    threshold: number("threshold"),
    for_evaluations: number("for_evaluations"),
    severity: choice(SEVERITY_CHOICES, { data: { testid: "rule-severity" } }),
    project: choice(projectChoices(projects, own), {}),
    tag: text("tag"),
    run: text("run"),
  };
}

function ruleFields({ form, projects, metricsInfo }) {
  const controls = ruleControls(projects, form.project);
  const set = fieldSet(controls, { values: form, labels: LABELS, wide: ["name"] });
  const enabled = checkbox("On", { checked: form.enabled });
  const hintThreshold = () => {
    const hint = isRelative(controls.operator.value) ? "A share of the baseline: 0.5 is by half." : "";
    set.fields.threshold.setHint(hint);
  };
  controls.operator.addEventListener("change", hintThreshold);
  hintThreshold();
  const offer = (id, names) =>
    el(
      "datalist",
      { id },
      names.map((name) => el("option", { value: name })),
    );
  return {
    root: el(
      "div",
      { class: "fields" },
      set.nodes,
      offer("rule-metrics", Object.keys(metricsInfo)),
      offer("rule-scopes", USUAL_SCOPES),
      enabled.root,
      set.rest,
    ),
    first: controls.name,
    names: set.names,
    rule: () => ruleOf({ ...set.texts(), enabled: enabled.input.checked }),
    showErrors: set.showErrors,
  };
}

/** A rule for all projects is for those who may change it in all. */
const firstProject = (projects) => (may("rule.edit", null) ? "" : projects[0] ?? "");

function projectChoices(projects, own) {
  const names = own === "" || projects.includes(own) ? projects : [...projects, own];
  const all = own === "" || may("rule.edit", null) ? [{ id: "", name: "All projects" }] : [];
  return [...all, ...names.map((name) => ({ id: name, name }))];
}

function previewPart(fields) {
  const words = el("p", { role: "status", data: { testid: "preview-words" } });
  const runs = el("ul", { class: "preview-runs" });
  const ask = button("Preview on existing runs", {
    small: true,
    data: { testid: "rule-preview" },
    on: {
      click: async () => {
        fields.showErrors({});
        ask.disabled = true;
        setText(words, "Looking at the runs …");
        try {
          const found = await previewRule(fields.rule());
          setText(words, previewWords(found));
          rerender(runs, JSON.stringify(found), () =>
            found.runs.filter(fired).slice(0, MAX_RUNS).map(previewRun),
          );
        } catch (error) {
          setText(words, "");
          fields.showErrors(fieldErrors(error, fields.names));
        } finally {
          ask.disabled = false;
        }
      },
    },
  });
  return { root: el("div", { class: "preview", data: { testid: "preview" } }, ask, words, runs) };
}

const fired = ({ episodes }) => episodes.length > 0;

function previewRun({ run_id: runId, run_name: name, project, episodes }) {
  const left = episodes.length - MAX_EPISODES;
  return el(
    "li",
    {},
    el("a", { href: runHref(runId), target: "_blank", rel: "noopener", text: name }),
    el("span", { class: "faint", text: ` ${project}: would have fired at` }),
    el(
      "ul",
      { class: "preview-steps" },
      episodes.slice(0, MAX_EPISODES).map((episode) => el("li", { text: episodeWords(episode) })),
      left > 0 ? el("li", { class: "faint", text: `and ${formatStep(left)} more times` }) : null,
    ),
  );
}
