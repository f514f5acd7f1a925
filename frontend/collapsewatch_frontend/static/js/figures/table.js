/** The numbers of a figure, as rows and as CSV. Pure. */

import { isNumber } from "../format.js";

/**
 * What a figure shows, in rows: its own `table()`, else one row per step with the traces that `meta.column` names.
 *
 * @param {{data: any[], overSteps?: boolean, table?: () => {columns: string[], rows: unknown[][]}}} figure
 * @param {{range?: [number, number] | null, clock?: import("../clock.js").Clock | null, smoothing?: number}} view
 * @returns {{columns: string[], rows: unknown[][]} | null} null where there is nothing to tell
 */
export function figureTable(figure, { range = null, clock = null, smoothing = 0 } = {}) {
  if (figure.table !== undefined) return figure.table();
  const traces = figure.data.filter((trace) => trace.meta?.column !== undefined);
  if (traces.length === 0) return null;
  const columns = traces.flatMap((trace) => columnsOf(trace, smoothing));
  const steps = [...new Set(traces.flatMap(({ x }) => x))]
    .filter((step) => range === null || (step >= range[0] && step <= range[1]))
    .sort((a, b) => a - b);
  const timed = clock !== null && clock.isKnown;
  return {
    columns: ["step", ...(timed ? ["time"] : []), ...columns.map(({ name }) => name)],
    rows: steps.map((step) => [
      step,
      ...(timed ? [new Date(clock.timeOf(step)).toISOString()] : []),
      ...columns.map(({ values }) => values.get(step) ?? null),
    ]),
  };
}

function columnsOf({ x, meta, y }, smoothing) {
  const { column, low, high, measured } = meta;
  const named = (name, values) => ({ name, values: new Map(x.map((step, i) => [step, values[i]])) });
  const has = (values) => values?.some(isNumber) === true;
  return [
    named(column, measured ?? y),
    ...(measured === undefined ? [] : [named(`${column} (smoothing ${smoothing})`, y)]),
    ...(has(low) ? [named(`${column} low`, low)] : []),
    ...(has(high) ? [named(`${column} high`, high)] : []),
  ];
}

/** A table as CSV (RFC 4180), in full precision; absent values are empty fields. */
export function csvText({ columns, rows }) {
  return [columns, ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

/**
 * Text is data also in a spreadsheet: names come from the run, and one that begins like a formula would be run
 * there, so it gets an apostrophe.
 */
function field(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return isNumber(value) ? String(value) : "";
  const text = /^[=+\-@\t\r]/.test(String(value)) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/** A file name of words that people chose: letters, digits, dots and hyphens, never empty. */
export function fileName(words, ending) {
  const stem = words
    .join(" ")
    .normalize("NFKD")
    .replace(/[^A-Za-z0-9.]+/g, "-")
    .replace(/^[-.]+|[-.]+$/g, "")
    .slice(0, 100)
    .toLowerCase();
  return `${stem === "" ? "figure" : stem}.${ending}`;
}
