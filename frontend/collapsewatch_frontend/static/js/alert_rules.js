/** Rules of alerts: those that come with the program, one's own, and their file. Pure. */

import { formatNumber, formatPercent, formatStep, humanise, isNumber, plural } from "./format.js";

export const OPERATORS = [
  { id: "<", name: "is below" },
  { id: "<=", name: "is at or below" },
  { id: ">", name: "is above" },
  { id: ">=", name: "is at or above" },
  { id: "drop", name: "fell from its baseline by the share" },
  { id: "rise", name: "rose from its baseline by the share" },
];

export const isRelative = (operator) => operator === "drop" || operator === "rise";

/** Where an own rule may look; a turn or another scope is typed. */
export const USUAL_SCOPES = ["first_turn", "trajectory", "batch", "trainer"];

export const EMPTY_RULE = {
  name: "",
  metric: "",
  scope: "first_turn",
  operator: "<",
  threshold: "",
  for_evaluations: "1",
  severity: "warning",
  project: "",
  tag: "",
  run: "",
  enabled: true,
};

/** The form's texts for a rule as it is stored. */
export function formOf(rule) {
  const texts = Object.fromEntries(
    Object.keys(EMPTY_RULE).map((name) => [name, rule[name] === null ? "" : String(rule[name] ?? "")]),
  );
  return { ...texts, enabled: rule.enabled };
}

/** The rule that a form describes; numbers that are none go to the server as they are, which says what is wrong. */
export function ruleOf(form) {
  const text = (name) => form[name].trim();
  const number = (name) => {
    const given = text(name).replace(",", ".");
    return given !== "" && Number.isFinite(Number(given)) ? Number(given) : text(name);
  };
  return {
    name: text("name"),
    metric: text("metric"),
    scope: text("scope"),
    operator: form.operator,
    threshold: number("threshold"),
    for_evaluations: number("for_evaluations"),
    severity: form.severity,
    project: text("project") || null,
    tag: text("tag") || null,
    run: text("run") || null,
    enabled: form.enabled,
  };
}

/** `{field: message}` of a refusal; what names no field is under `form`. */
export function fieldErrors({ details, message }, fields) {
  const found = {};
  for (const detail of details) {
    const text = detail.message.replace(/^Value error, /, "");
    // What is wrong between fields names the first of them in its words.
    const named = /^`(\w+)`/.exec(text)?.[1];
    const field = fields.find(
      (name) => detail.loc === name || detail.loc.startsWith(`${name}.`) || named === name,
    );
    if (field !== undefined) found[field] ??= text;
    else found.form ??= detail.loc === "" ? text : `${detail.loc}: ${text}`;
  }
  if (details.length === 0) found.form = message;
  return found;
}

/** What a rule says, in one line: `reward (batch) fell from its baseline by 50 %, 3 evaluations in a row`. */
export function ruleWords(rule) {
  const operator = OPERATORS.find(({ id }) => id === rule.operator)?.name ?? rule.operator;
  const relation = isRelative(rule.operator)
    ? `${rule.operator === "drop" ? "fell" : "rose"} from its baseline by more than ${formatPercent(rule.threshold)}`
    : `${operator} ${formatNumber(rule.threshold)}`;
  const often = rule.for_evaluations > 1 ? `, ${plural(rule.for_evaluations, "evaluation")} in a row` : "";
  return `${rule.metric} (${humanise(rule.scope)}) ${relation}${often}`;
}

/** Which runs a rule is about. */
export function aboutWords({ project, tag, run }) {
  const parts = [
    project ? `project ${project}` : "",
    tag ? `tag ${tag}` : "",
    run ? `run ${run}` : "",
  ].filter((text) => text !== "");
  return parts.length === 0 ? "all runs" : parts.join(", ");
}

/** What a preview found, over all runs. */
export function previewWords({ runs, num_runs: numRuns, is_cut: isCut }) {
  if (numRuns === 0) return "No run is there that this rule is about.";
  if (runs.length === 0) return `None of ${plural(numRuns, "run")} has this metric in this scope.`;
  const fired = runs.filter((run) => run.episodes.length > 0);
  const total = fired.reduce((sum, run) => sum + run.episodes.length, 0);
  const looked = `${plural(runs.length, "run")} that ${runs.length === 1 ? "has" : "have"} the metric`;
  const cut = isCut ? " Only the newest runs were looked at." : "";
  if (total === 0) return `It would never have fired on ${looked}.${cut}`;
  return `It would have fired ${total === 1 ? "once" : `${formatStep(total)} times`}, on ${formatStep(fired.length)} of ${looked}.${cut}`;
}

/** `would have fired at step 20 (0.300 against 0.300), open to the end`. */
export function episodeWords({ opened_step: opened, resolved_step: resolved, value, limit }) {
  const end = isNumber(resolved) ? `resolved at step ${formatStep(resolved)}` : "open to the end";
  return `step ${formatStep(opened)}: ${formatNumber(value)} against ${formatNumber(limit)}, ${end}`;
}

/**
 * What a detector is set to in a project: `{enabled, severity, from}`; `from` is "project", "everywhere" or
 * "own" for what it has of itself. Without a project what is set for every project.
 */
export function settingIn({ settings }, project) {
  const own = settings.find((setting) => (setting.project ?? "") === project);
  if (own !== undefined) {
    return { enabled: own.enabled, severity: own.severity, from: project === "" ? "everywhere" : "project" };
  }
  const everywhere = settings.find((setting) => setting.project === null);
  if (everywhere !== undefined) {
    return { enabled: everywhere.enabled, severity: everywhere.severity, from: "everywhere" };
  }
  return { enabled: true, severity: null, from: "own" };
}

const NAMED = { critical: "critical alert", warning: "warning", info: "note" };

/** One line per severity that has a rate: `warning at most 1 in 1,333 evaluations, 38 % of the budget`. */
export function rateLines({ false_alarms: rates }) {
  return rates.map(
    ({ severity, alpha, share }) =>
      `${NAMED[severity] ?? severity} at most 1 in ${formatStep(Math.floor(1 / alpha))} evaluations, ${formatPercent(share)} of the budget`,
  );
}

/** What all rules of a run together keep to, by severity; each detector's rate is its share of that. */
export function totalWords(detectors) {
  const totals = new Map();
  for (const { severity, alpha, share } of detectors.flatMap((each) => each.false_alarms)) {
    if (share > 0) totals.set(severity, alpha / share);
  }
  if (totals.size === 0) return "";
  const parts = ["critical", "warning", "info"]
    .filter((severity) => totals.has(severity))
    .map(
      (severity) => `${NAMED[severity]} in ${formatStep(Math.round(1 / totals.get(severity)))} evaluations`,
    );
  return `The error budget of a stable run, all rules and scopes together: at most one false ${parts.join(", one ")}, in the long run. Rates below are of the first turn’s scope.`;
}

/** `note, warning or critical alert`. */
export function severityWords(severities) {
  const names = severities.map((severity) => NAMED[severity] ?? severity);
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} or ${names[names.length - 1]}`;
}

const GROUPS = [
  { id: "each", name: "Of reasoning, in each scope" },
  { id: "batch", name: "Of the batch" },
  { id: "service", name: "Of runs and service" },
];

/** Detectors under the heads that they are shown below; a kind that is not known stands last. */
export function groupDetectors(detectors) {
  const known = GROUPS.map(({ id }) => id);
  return [...GROUPS, { id: null, name: "Others" }]
    .map(({ id, name }) => ({
      name,
      detectors: detectors.filter(({ scope }) => (id === null ? !known.includes(scope) : scope === id)),
    }))
    .filter((group) => group.detectors.length > 0);
}

/** What is wrong with a file: `[{line, message}]`; `line` counts from 1 and is null where none is named. */
export function fileErrors({ details, message }) {
  if (details.length === 0) return [{ line: null, message }];
  return details.map(({ loc, message: text }) => {
    const placed = /^line (\d+): (.*)$/.exec(loc);
    if (placed !== null) return { line: Number(placed[1]), message: `${placed[2]}: ${text}` };
    const inside = /\(at line (\d+), column \d+\)/.exec(text);
    return { line: inside === null ? null : Number(inside[1]), message: text };
  });
}

/** First and last character of a line of a text, for its selection; the end of the text for one beyond it. */
export function lineSpan(text, line) {
  const lines = text.split("\n");
  const at = Math.min(Math.max(1, line), lines.length) - 1;
  const start = lines.slice(0, at).reduce((sum, each) => sum + each.length + 1, 0);
  return [start, start + lines[at].length];
}

/** What an import did. */
export function importWords({ created, updated, unchanged, num_detector_settings: numSettings }) {
  const parts = [
    created.length > 0 ? `${plural(created.length, "rule")} created` : "",
    updated.length > 0 ? `${plural(updated.length, "rule")} changed` : "",
    unchanged.length > 0 ? `${plural(unchanged.length, "rule")} as before` : "",
    numSettings > 0 ? plural(numSettings, "setting of a detector", "settings of detectors") : "",
  ].filter((text) => text !== "");
  return parts.length === 0 ? "The file holds no rule." : `Imported: ${parts.join(", ")}.`;
}
