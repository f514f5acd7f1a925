/** The prompts of a step as rows of a table: what became of each, and what it was before. Pure. */

import { hasHeatmap } from "./figures/heatmap.js";
import { isNumber } from "./format.js";

/** The words for why a group's rewards do not vary. */
export const CAUSES = {
  too_easy: "too easy: all at the top",
  too_hard: "too hard: all at the bottom",
  reward_insensitive: "equal rewards, different actions",
  tied: "tied, cause unknown",
};

/** Retrieval skill of one prompt: 0 at chance, 1 when all its reasonings fit it best; null with one prompt. */
export function promptSkill({ accuracy, chance }) {
  return chance < 1 ? (accuracy - chance) / (1 - chance) : null;
}

/**
 * One row per prompt, in the order of the batch.
 *
 * @param {{evaluation: {prompts: any[]}, groups: any[], filters: any[]}} step answer of the API
 * @param {{kept?: any, then?: any}} [beside] what filters kept, and another step
 */
export function promptRows(step, { kept = null, then = null } = {}) {
  const { prompts } = step.evaluation;
  const groups = new Map(step.groups.map((group) => [group.group_id, group]));
  const histories = new Map((kept?.groups ?? []).map((group) => [group.group_id, group]));
  const matrix = hasHeatmap(prompts) ? prompts.map((prompt) => prompt.retrieved) : null;
  const find = then === null ? () => null : finder(then.evaluation.prompts);
  return prompts.map((prompt, i) => {
    const own = prompt.group_ids.map((id) => groups.get(id)).filter((group) => group !== undefined);
    const before = find(prompt);
    const [skill, skillThen] = [promptSkill(prompt), before === null ? null : promptSkill(before)];
    return {
      number: i + 1,
      groupIds: prompt.group_ids,
      text: prompt.preview || prompt.group_ids.join(", "),
      numRows: prompt.num_rows,
      accuracy: prompt.accuracy,
      chance: prompt.chance,
      skill,
      skillThen,
      change: isNumber(skill) && isNumber(skillThen) ? skill - skillThen : null,
      fits: matrix === null ? null : bestFit(matrix[i]),
      attracts: matrix === null ? null : attraction(matrix, prompts, i),
      ...rewardsOf(own),
      keptBy: keptBy(prompt.group_ids, step.filters),
      history: historyOf(prompt.group_ids, histories),
    };
  });
}

/** Finds the same prompt in another step: by a group that both name, else by its text. */
function finder(prompts) {
  const byGroup = new Map(prompts.flatMap((prompt) => prompt.group_ids.map((id) => [id, prompt])));
  const byText = new Map(prompts.filter(({ preview }) => preview !== "").map((one) => [one.preview, one]));
  return ({ group_ids: ids, preview }) =>
    ids.map((id) => byGroup.get(id)).find((one) => one !== undefined) ?? byText.get(preview) ?? null;
}

function bestFit(shares) {
  const share = Math.max(...shares);
  return { number: shares.indexOf(share) + 1, share };
}

/** Share of the other prompts' reasonings that fit this one best: a prompt that attracts everything has 1. */
function attraction(matrix, prompts, column) {
  let hits = 0;
  let rows = 0;
  prompts.forEach((prompt, i) => {
    if (i === column) return;
    hits += matrix[i][column] * prompt.num_rows;
    rows += prompt.num_rows;
  });
  return rows === 0 ? null : hits / rows;
}

/** Rewards of the groups of a prompt, usually one; of several identical prompts the means. */
function rewardsOf(groups) {
  const mean = (values) => {
    const known = values.filter(isNumber);
    return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
  };
  return {
    reward: mean(groups.map((group) => group.mean)),
    variance: mean(groups.map(({ std }) => (isNumber(std) ? std * std : null))),
    cause:
      groups.length > 0 && groups.every(({ cause }) => cause === groups[0].cause)
        ? (groups[0].cause ?? null)
        : null,
  };
}

/** `[{rule, kept}]`: whether each rule keeps any of the groups. */
function keptBy(groupIds, filters) {
  return filters.map(({ rule, kept_group_ids: ids }) => ({
    rule,
    kept: groupIds.some((id) => ids.includes(id)),
  }));
}

/** Of several groups of a prompt the best that happened to any of them. */
function historyOf(groupIds, histories) {
  const found = groupIds.map((id) => histories.get(id)).filter((one) => one !== undefined);
  if (found.length === 0) return null;
  const rules = Object.keys(found[0].last_kept);
  const latest = (rule) => {
    const steps = found.map(({ last_kept: last }) => last[rule]).filter(isNumber);
    return steps.length === 0 ? null : Math.max(...steps);
  };
  const failing = found.map((one) => one.all_fail_since);
  return {
    numSeen: Math.max(...found.map((one) => one.num_seen)),
    allFailSince: failing.every(isNumber) ? Math.max(...failing) : null,
    lastKept: Object.fromEntries(rules.map((rule) => [rule, latest(rule)])),
  };
}

/** What the rows can be sorted by: the name of the column and how a row ranks, smallest first. */
export const ORDERS = {
  number: { rank: (row) => row.number },
  skill: { rank: (row) => row.skill },
  change: { rank: (row) => row.change },
  attracts: { rank: (row) => negative(row.attracts) },
  reward: { rank: (row) => negative(row.reward) },
  variance: { rank: (row) => negative(row.variance) },
  kept: { rank: (row, rule) => lastKeptRank(row, rule) },
};

const negative = (value) => (isNumber(value) ? -value : null);
const lastKeptRank = ({ history }, rule) => (history === null ? null : (history.lastKept[rule] ?? -1));

/** The rows by one of `ORDERS`; what has no value comes last, ties keep the order of the batch. */
export function sortedRows(rows, order, { reverse = false, rule = "" } = {}) {
  const { rank } = ORDERS[order] ?? ORDERS.number;
  return [...rows].sort((a, b) => {
    const [first, second] = [rank(a, rule), rank(b, rule)];
    if (!isNumber(first) || !isNumber(second)) return Number(!isNumber(first)) - Number(!isNumber(second));
    return (reverse ? second - first : first - second) || a.number - b.number;
  });
}

/** The retrieval matrix of a step with rows and columns in this order of numbers. */
export function orderedPrompts(prompts, numbers) {
  return numbers.map((number) => ({
    ...prompts[number - 1],
    number,
    retrieved: numbers.map((column) => prompts[number - 1].retrieved[column - 1]),
  }));
}

/**
 * Another step's prompts in the places of this one's, with their numbers; null unless both steps have the very
 * same prompts, without which cells do not correspond.
 */
export function matchedPrompts(prompts, others) {
  if (prompts.length !== others.length || !hasHeatmap(others)) return null;
  const find = finder(others);
  const places = prompts.map((prompt) => others.indexOf(find(prompt)));
  if (places.includes(-1) || new Set(places).size !== places.length) return null;
  return places.map((place, i) => ({
    ...others[place],
    number: i + 1,
    retrieved: places.map((column) => others[place].retrieved[column]),
  }));
}

/** This step's shares minus the other's, cell by cell. */
export function matrixDifference(prompts, matched) {
  return prompts.map((prompt, i) => ({
    ...prompt,
    retrieved: prompt.retrieved.map((share, j) => share - matched[i].retrieved[j]),
  }));
}
