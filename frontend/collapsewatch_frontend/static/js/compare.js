/** What differs between runs, and which figures lay them over one another. Pure. */

import { formatStep, ordinal, plural, scorerWords } from "./format.js";
import { BATCH, SCORED, TRAINER } from "./panels.js";

export const MAX_RUNS = 20;

/**
 * The figures that every comparison has. `scope` is a part of the page's choice (panels.js), `reference` a
 * metric that is drawn as a level where all runs share it.
 */
export const COMPARED = [
  {
    id: "retrieval",
    size: "tall",
    scope: SCORED,
    metric: "retrieval_accuracy",
    title: "Retrieval accuracy",
    yRange: [0, 1.03],
    reference: "retrieval_chance",
  },
  {
    id: "mi",
    size: "tall",
    scope: SCORED,
    metric: "mi_seq",
    title: "Mutual information",
    yRange: "from zero",
    reference: "mi_ceiling",
  },
  {
    id: "entropy",
    size: "tall",
    scope: SCORED,
    metric: "conditional_entropy",
    title: "H(Z|X)",
    yRange: "from zero",
  },
  { id: "skill", scope: SCORED, metric: "retrieval_skill", title: "Retrieval skill" },
  { id: "reward", scope: BATCH, metric: "reward", title: "Reward" },
  { id: "success", scope: TRAINER, metric: "success", title: "Success" },
  {
    id: "reward-variance",
    scope: BATCH,
    metric: "reward_variance",
    title: "Reward variance",
    yRange: "from zero",
  },
  {
    id: "zero-variance",
    scope: BATCH,
    metric: "zero_variance_fraction",
    title: "Zero-variance groups",
    yRange: [0, 1.03],
    share: true,
  },
  {
    id: "valid-reasoning",
    scope: BATCH,
    metric: "valid_reasoning_rate",
    title: "Valid reasoning",
    yRange: [0, 1.03],
    share: true,
  },
  {
    id: "length",
    scope: BATCH,
    metric: "reasoning_length",
    title: "Reasoning length",
    yRange: "from zero",
  },
];

/** A metric that a person added to the page, `<scope>:<metric>` in its address, as a figure; null for no such. */
export function addedFigure(text) {
  const [scope, ...rest] = text.split(":");
  const metric = rest.join(":");
  if (![SCORED, BATCH, TRAINER].includes(scope) || metric === "") return null;
  if (COMPARED.some((figure) => figure.scope === scope && figure.metric === metric)) return null;
  return { id: `added-${scope}-${metric}`, scope, metric, title: metric, key: text, isAdded: true };
}

/** What can be added: `[{key, scope, metric}]`, every metric of any run that no figure shows yet. */
export function addable(runs, scope, shown) {
  const taken = new Set(shown.map((figure) => `${figure.scope}:${figure.metric}`));
  const levels = new Set(shown.map((figure) => `${figure.scope}:${figure.reference}`));
  const found = new Map();
  for (const place of [SCORED, BATCH, TRAINER]) {
    for (const run of runs) {
      for (const metric of run.metrics[place === SCORED ? scope : place] ?? []) {
        const key = `${place}:${metric}`;
        if (!taken.has(key) && !levels.has(key)) found.set(key, { key, scope: place, metric });
      }
    }
  }
  return [...found.values()].sort((a, b) => a.key.localeCompare(b.key));
}

/** Of a level only the lowest and the highest value count. */
const LEVEL_POINTS = 10;

/**
 * What to ask for of a part of the page's choice, as far as any run has it: `[{metrics, maxPoints?}]`. The large
 * figures come first and by themselves, so that they need not wait for the others.
 */
export function questions(figures, runs, place, scope) {
  const there = new Set(runs.flatMap((run) => run.metrics[scope] ?? []));
  const asked = new Set();
  const take = (metrics) =>
    metrics.filter((metric) => {
      if (!there.has(metric) || asked.has(metric)) return false;
      asked.add(metric);
      return true;
    });
  const ours = figures.filter((figure) => figure.scope === place);
  const large = take(ours.filter((figure) => figure.size === "tall").map((figure) => figure.metric));
  const small = take(ours.map((figure) => figure.metric));
  const levels = take(ours.map((figure) => figure.reference));
  return [{ metrics: large }, { metrics: small }, { metrics: levels, maxPoints: LEVEL_POINTS }].filter(
    ({ metrics }) => metrics.length > 0,
  );
}

/** How deep settings are taken apart; the server groups runs by the same paths. */
const MAX_DEPTH = 6;

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** Settings by their path, such as `optimizer.lr`; lists stay whole. */
export function flatConfig(config, before = "", depth = 1) {
  return Object.fromEntries(
    Object.entries(config).flatMap(([key, value]) =>
      isObject(value) && Object.keys(value).length > 0 && depth < MAX_DEPTH
        ? Object.entries(flatConfig(value, `${before}${key}.`, depth + 1))
        : [[`${before}${key}`, value]],
    ),
  );
}

/** A value as text that does not depend on the order of keys. */
export function canonical(value) {
  return JSON.stringify(value, (_, inner) =>
    isObject(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner,
  );
}

/** All settings of the runs: `[{key, values, differs}]`, values in the order of the runs, keys sorted. */
export function configRows(configs) {
  const flat = configs.map((config) => flatConfig(config));
  const keys = [...new Set(flat.flatMap((config) => Object.keys(config)))].sort();
  return keys.map((key) => {
    const values = flat.map((config) => config[key]);
    return { key, values, differs: new Set(values.map(canonical)).size > 1 };
  });
}

/** Settings that are not the same in all runs: `[{key, values}]`, values in the order of the runs. */
export function configDifference(configs) {
  return configRows(configs)
    .filter(({ differs }) => differs)
    .map(({ key, values }) => ({ key, values }));
}

/** Which values of a row stand out: those that are not the most frequent one. All are alike where none is. */
export function standsOut(values) {
  const counts = new Map();
  for (const value of values.map(canonical)) counts.set(value, (counts.get(value) ?? 0) + 1);
  const most = Math.max(...counts.values());
  const usual = [...counts].filter(([, count]) => count === most);
  if (usual.length > 1) return values.map(() => false);
  return values.map((value) => canonical(value) !== usual[0][0]);
}

/** The rule by which a part was scored, without what changes from step to step by itself. */
function samplingRule(sampling) {
  if (sampling === null) return null;
  if (sampling.by_trainer) return "chosen by the trainer";
  const parts = [];
  if (Number.isFinite(sampling.num_samples))
    parts.push(`at most ${formatStep(sampling.num_samples)} reasonings`);
  if (sampling.every_steps > 1) parts.push(`every ${ordinal(sampling.every_steps)} step`);
  if (sampling.is_probe) {
    // Sets of the same size are told apart by their key.
    parts.push(`probe set of ${plural(sampling.num_probe_groups, "prompt")} (${sampling.probe_key})`);
  }
  return parts.join(" · ") || "every reasoning";
}

/** What has to be the same in all runs before the levels of their scores can be compared. */
const SCORED_ALIKE = [
  { key: "scorer", read: ({ scorer }) => scorerWords(scorer) },
  { key: "estimates", read: ({ scorer }) => (scorer.is_policy ? "the policy’s own I(X;Z)" : "a proxy") },
  { key: "tokens", read: ({ scorer }) => (scorer.retokenised ? "re-tokenised" : "as they were sent") },
  { key: "scope", read: ({ scope }) => scope.replace(/_/g, " ") },
  { key: "part scored", read: ({ sampling }) => samplingRule(sampling) },
  { key: "temperature", read: ({ temperature }) => temperature },
  { key: "reasoning tags", read: ({ template }) => template },
];

/**
 * How the scoring of the runs differs: `[{key, values}]`, values in the order of the runs. A run is
 * `{scorer, scope, sampling, temperature, template}`; what is null is not known, and a run without
 * scores differs from none.
 */
export function scoringDifference(runs) {
  return SCORED_ALIKE.map(({ key, read }) => ({
    key,
    values: runs.map((run) => (run.scorer === null ? null : read(run))),
  })).filter(({ values }) => new Set(values.filter((value) => value !== null)).size > 1);
}

/** `reference` once, when all runs share it (chance level, ceiling); null when they differ. */
export function sharedReference(allSeries) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of allSeries.flatMap((series) => series?.values ?? [])) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return null;
  return high - low <= 1e-3 * Math.max(1, Math.abs(high)) ? high : null;
}
