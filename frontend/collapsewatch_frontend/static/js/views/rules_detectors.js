/** The rules that come with the program: what they need, how rare false alarms are, and what a project makes of them. */

import { may } from "../access.js";
import { forgetDetector, setDetector } from "../api.js";
import { SEVERITIES } from "../alerts.js";
import { groupDetectors, rateLines, settingIn, severityWords, totalWords } from "../alert_rules.js";
import { humanise } from "../format.js";
import { rulesHref } from "../routes.js";
import { prose } from "./components.js";
import { button, checkbox, choice, setOptions } from "./forms.js";
import { el, rerender, setText } from "./dom.js";

const OWN_SEVERITY = { id: "", name: "Its own severity" };

export function detectorsPart({ metricsInfo, reload, navigate }) {
  const project = choice([{ id: "", name: "Every project" }], {
    id: "detector-project",
    data: { testid: "detector-project" },
    on: { change: () => navigate(rulesHref({ project: project.value })) },
  });
  const said = el("p", { class: "inbox-said", role: "status", data: { testid: "detector-said" } });
  const budget = el("p", { class: "card-note", data: { testid: "error-budget" } });
  const groups = el("div", { data: { testid: "detectors" } });
  const root = el(
    "section",
    { "aria-label": "Rules that come with the program" },
    el(
      "div",
      { class: "section-head" },
      el("h2", { class: "section-title", text: "Rules that come with the program" }),
      el(
        "label",
        { class: "control", for: "detector-project" },
        el("span", { class: "control-label", text: "Set for" }),
        project,
      ),
    ),
    budget,
    said,
    groups,
  );
  const save = async (action) => {
    try {
      setText(said, "");
      await action();
    } catch (error) {
      setText(said, `It could not be set: ${error.message}.`);
    }
    reload();
  };
  return {
    root,
    update(view) {
      setOptions(project, [
        { id: "", name: "Every project" },
        ...view.projects.map((name) => ({ id: name, name })),
      ]);
      if (view.project !== "" && !view.projects.includes(view.project)) {
        project.append(el("option", { value: view.project, text: view.project }));
      }
      project.value = view.project;
      setText(budget, totalWords(view.detectors));
      rerender(groups, JSON.stringify([view.detectors, view.project]), () =>
        groupDetectors(view.detectors).map((group) =>
          detectorGroup(group, {
            project: view.project,
            save,
            titleOf: (name) => metricsInfo[name]?.title ?? humanise(name),
          }),
        ),
      );
    },
  };
}

function detectorGroup({ name, detectors }, context) {
  return [
    el("h3", { class: "group-title", text: name }),
    el(
      "ul",
      { class: "rule-list rule-columns" },
      detectors.map((detector) => detectorCard(detector, context)),
    ),
  ];
}

function detectorCard(detector, { project, save, titleOf }) {
  const setting = settingIn(detector, project);
  const set = (change) =>
    save(() =>
      setDetector({
        rule: detector.rule,
        project: project === "" ? null : project,
        enabled: setting.enabled,
        severity: setting.severity,
        ...change,
      }),
    );
  const on = checkbox("On", {
    checked: setting.enabled,
    "aria-label": `${detector.title} on`,
    data: { testid: "detector-enabled", focusKey: `on-${detector.rule}` },
    on: { change: (event) => set({ enabled: event.target.checked }) },
  });
  const severity = choice(
    [OWN_SEVERITY, ...Object.entries(SEVERITIES).map(([id, { name }]) => ({ id, name }))],
    {
      value: setting.severity ?? "",
      "aria-label": `Severity of ${detector.title}`,
      data: { testid: "detector-severity", focusKey: `severity-${detector.rule}` },
      on: { change: (event) => set({ severity: event.target.value || null }) },
    },
  );
  const isAllowed = may("rule.edit", project === "" ? null : project);
  const isOwnHere = setting.from === (project === "" ? "everywhere" : "project");
  const forget = isOwnHere
    ? button(project === "" ? "As it comes" : "As in every project", {
        small: true,
        data: { testid: "detector-forget", focusKey: `forget-${detector.rule}` },
        on: { click: () => save(() => forgetDetector(detector.rule, project)) },
      })
    : null;
  const controls = isAllowed ? [on.root, severity, forget] : el("span", { text: setting.enabled ? "On" : "Off" });
  return el(
    "li",
    {
      class: setting.enabled ? "card rule-card" : "card rule-card rule-off",
      data: { testid: "detector", rule: detector.rule },
    },
    el(
      "div",
      { class: "alert-head" },
      el("strong", { text: detector.title }),
      el("span", { class: "rule-end" }, controls),
    ),
    el("p", { class: "rule-words" }, prose(detector.condition)),
    el("p", { class: "faint" }, factsOf(detector, { setting, project, titleOf })),
  );
}

function factsOf(detector, { setting, project, titleOf }) {
  const levels = `Opens as ${severityWords(detector.severities)}. `;
  const rates = rateLines(detector);
  const inherited = project !== "" && setting.from === "everywhere" ? " Set for every project." : "";
  return [
    el("code", { text: detector.rule }),
    el("span", { text: ` ${levels}` }),
    detector.metrics.length > 0
      ? el("span", { text: `Needs ${detector.metrics.map(titleOf).join(", ")}. ` })
      : null,
    el("span", {
      text:
        rates.length > 0
          ? `False alarms: ${rates.join("; ")}.`
          : "It tells a state, not a test: no rate of false alarms.",
    }),
    el("span", { text: inherited }),
  ];
}
