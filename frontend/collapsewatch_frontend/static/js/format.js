/** Numbers, times and text for people. Pure. */

const MINUS = "−";
const NO_VALUE = "–";
/** Made once: to make one for every number of a page of runs takes a second. */
const GROUPED = new Intl.NumberFormat("en-US");

/** Whether a value is there at all; an absent number is never shown as 0. */
export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/** A number in at most four significant places: 0.859, 12.34, 1,234; a count (2 or more, whole) as it is. */
export function formatNumber(value) {
  if (!isNumber(value)) return NO_VALUE;
  const size = Math.abs(value);
  let text;
  if (size === 0) text = "0";
  else if (size >= 1000 || (size >= 2 && Number.isInteger(size)))
    text = GROUPED.format(Math.round(size));
  else if (size >= 100) text = size.toFixed(1);
  else if (size >= 10) text = size.toFixed(2);
  else if (size >= 0.001) text = size.toFixed(3);
  else text = size.toExponential(1);
  return value < 0 ? `${MINUS}${text}` : text;
}

export function formatPercent(value) {
  if (!isNumber(value)) return NO_VALUE;
  const percent = value * 100;
  const digits = percent !== 0 && Math.abs(percent) < 10 ? 1 : 0;
  return `${percent.toFixed(digits)} %`;
}

/** `0.21 to 0.35`, or an empty text when there is no interval. */
export function formatInterval(low, high, format = formatNumber) {
  return isNumber(low) && isNumber(high) ? `${format(low)} to ${format(high)}` : "";
}

export function formatStep(step) {
  return isNumber(step) ? GROUPED.format(step) : NO_VALUE;
}

/** `3 s`, `4 min`, `2 h`, `5 d`; what a person says of a duration in seconds. */
export function formatDuration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h`;
  return `${Math.floor(whole / 86400)} d`;
}

/** `512 B`, `1.2 MiB`, `48 GiB`: an amount of data in powers of 1,024. */
export function formatBytes(bytes) {
  if (!isNumber(bytes)) return NO_VALUE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1023.5 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 || value >= 99.5 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** `4 s ago` for an ISO time; times ahead of this clock are "just now". */
export function formatAge(isoTime, nowMs) {
  const then = Date.parse(isoTime ?? "");
  if (Number.isNaN(then)) return NO_VALUE;
  const seconds = (nowMs - then) / 1000;
  return seconds < 1 ? "just now" : `${formatDuration(seconds)} ago`;
}

/** `14:03:27` in local time. */
export function formatClock(milliseconds) {
  const date = new Date(milliseconds);
  return [date.getHours(), date.getMinutes(), date.getSeconds()]
    .map((part) => String(part).padStart(2, "0"))
    .join(":");
}

export function plural(count, singular, many = `${singular}s`) {
  return `${formatStep(count)} ${count === 1 ? singular : many}`;
}

/** `zero_variance_fraction` as `zero variance fraction`, for names without a title of their own. */
export function humanise(name) {
  return name.replace(/[_/]+/g, " ").trim();
}

export function truncate(text, length) {
  return text.length <= length ? text : `${text.slice(0, Math.max(0, length - 1))}…`;
}

/** The start and the end of a long name: names of runs often differ only at the end. */
export function shortName(name, length) {
  if (name.length <= length) return name;
  const tail = Math.floor((length - 1) / 2);
  return `${name.slice(0, length - 1 - tail)}…${name.slice(name.length - tail)}`;
}

/**
 * Text that Plotly shows letter by letter.
 * Plotly reads a few tags in every label; names and prompts are data and must stay text.
 */
export function plotlyText(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

/** A JSON value as one short line, numbers as people read them. */
export function formatValue(value) {
  if (isNumber(value)) return Number.isInteger(value) ? formatStep(value) : formatNumber(value);
  if (value === null || value === undefined) return NO_VALUE;
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.map(formatValue).join(", ");
  if (typeof value === "object") {
    const { value: middle, low, high, ...rest } = value;
    if (isNumber(middle) && Object.keys(rest).length === 0) {
      const interval = formatInterval(low, high);
      return interval === "" ? formatNumber(middle) : `${formatNumber(middle)} (${interval})`;
    }
    return Object.entries(value)
      .map(([key, inner]) => `${humanise(key)} ${formatValue(inner)}`)
      .join("; ");
  }
  return String(value);
}

/** A setting as it was given: rounding would make two different learning rates look the same. */
export function formatSetting(value) {
  if (isNumber(value)) return String(value).replace("-", MINUS);
  if (value === null || value === undefined) return NO_VALUE;
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.map(formatSetting).join(", ");
  if (typeof value === "object") {
    return Object.entries(value)
      .map(([key, inner]) => `${humanise(key)} ${formatSetting(inner)}`)
      .join("; ");
  }
  return String(value);
}

/** Text with `code` between backticks, as `[{text, isCode}]`; a backtick without its partner stays. */
export function codeParts(text) {
  return text
    .split(/(`[^`]+`)/)
    .filter((part) => part !== "")
    .map((part) =>
      /^`[^`]+`$/.test(part) ? { text: part.slice(1, -1), isCode: true } : { text: part, isCode: false },
    );
}

/**
 * The words for who scores. A pattern of checkpoints names no single one, so its places are
 * told in words instead of braces.
 * @param {Record<string, any>} scorer
 */
export function scorerWords({ kind, label }) {
  if (kind === "lexical") return label.replace(/_/g, " ");
  const places = [...new Set(label.match(/\{(?:policy_version|step)\}/g) ?? [])];
  if (places.length === 0) return label;
  const each = places.map((place) => humanise(place.slice(1, -1))).join(" and ");
  const pattern = label.replace(/\s+\{(?:policy_version|step)\}(?=\s|,|$)/g, "");
  return `${pattern.replace(/\{(?:policy_version|step)\}/g, "…")}, one per ${each}`;
}

/** `1st`, `2nd`, `3rd`, `11th`, `1,021st`. */
export function ordinal(number) {
  const [tens, ones] = [Math.floor(number / 10) % 10, number % 10];
  const ending = tens === 1 ? "th" : (["th", "st", "nd", "rd"][ones] ?? "th");
  return `${GROUPED.format(number)}${ending}`;
}

/** What part of a scope was scored, and how it was chosen, in one line: nothing is left out silently. */
export function samplingWords(sampling) {
  const { num_rows: rows, num_rows_available: available } = sampling;
  const all = rows >= available;
  const amount = all
    ? `all ${plural(available, "reasoning")}`
    : `${formatStep(rows)} of ${plural(available, "reasoning")}`;
  if (sampling.by_trainer) return all ? amount : `${amount}, chosen by the trainer`;
  const parts = [amount];
  if (sampling.num_samples !== null && sampling.num_samples !== undefined) {
    // A cap that was not reached drew nothing, but with a larger batch it will.
    parts[0] = all ? `${amount}, at most ${formatStep(sampling.num_samples)}` : `${amount}, seed ${sampling.seed}`;
  }
  if (sampling.every_steps > 1) parts.push(`every ${ordinal(sampling.every_steps)} step`);
  if (sampling.is_probe) {
    const { num_probe_groups: size, num_probe_groups_present: present } = sampling;
    const missing = present < size ? `, ${formatStep(present)} of them in the batch` : "";
    parts.push(`probe set of ${plural(size, "prompt")}${missing}`);
  }
  return parts.join(" · ");
}
