/** People, links to join by, keys, what is kept and what was done, in words. Pure. */

import { formatAge, plural } from "./format.js";

export const LEAST_PASSWORD = 10;
export const MOST_PASSWORD = 200;
const FEWEST_DIFFERENT = 5;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}$/;

export const NAME_RULE = "Letters, digits and . _ @ + -; an e-mail address is fine.";
export const PASSWORD_RULE = `At least ${LEAST_PASSWORD} characters. Length is what counts; several words are good.`;

/** What the server would say against a name; empty when it will do. */
export function nameProblem(name) {
  if (name === "") return "Choose a name.";
  return NAME.test(name) ? "" : `This name will not do. ${NAME_RULE}`;
}

/** What the server would say against a password; empty when it will do. */
export function passwordProblem(password, name = "") {
  const length = [...password].length;
  if (length < LEAST_PASSWORD)
    return `A password has at least ${LEAST_PASSWORD} characters; this has ${length}.`;
  if (length > MOST_PASSWORD) return `A password has at most ${MOST_PASSWORD} characters.`;
  const holdsName = name !== "" && password.toLowerCase().includes(name.toLowerCase());
  if (holdsName || new Set(password).size < FEWEST_DIFFERENT) {
    return "A password does not hold the name, and is not a few characters over and over.";
  }
  return "";
}

/** How far a password that is being typed has come, by its length alone. */
export function lengthWords(password) {
  const length = [...password].length;
  if (length === 0) return PASSWORD_RULE;
  if (length < LEAST_PASSWORD) return `${plural(LEAST_PASSWORD - length, "more character")} to go.`;
  if (length < 16) return "Long enough; longer is better.";
  return "Long.";
}

/** Why somebody was not let in; `error` as the network answers it. */
export function refusalWords({ status, code, message, retryAfterSeconds }) {
  if (status === 429) {
    const wait = retryAfterSeconds > 0 ? retryAfterSeconds : 60;
    return `Too many tries. Try again in ${wait > 90 ? plural(Math.ceil(wait / 60), "minute") : plural(wait, "second")}.`;
  }
  if (code === "wrong_credentials") return "The name or the password is wrong.";
  if (status === undefined) return "The server does not answer. Try again in a moment.";
  return sentence(message);
}

const PROVIDER_WORDS = {
  unreachable: "It does not answer. Try again in a moment, or sign in with a password.",
  refused: "It has not let you in, or you have turned back there.",
  expired: "It took too long, or began in another browser. Try again.",
  uninvited: "It knows you, but nobody has invited you here. Whoever operates the service sends you a link.",
  unnamed: "It knows you by a name that cannot be used here. Whoever operates the service can tell more.",
  taken: "An account of your name is here and is not yours. Whoever operates the service can tell more.",
  closed: "Your account here is closed. Whoever operates the service can open it again.",
};

/** Why somebody whom another service should have signed in comes back without; `reason` is the server's word. */
export function providerWords(reason, name) {
  const why = PROVIDER_WORDS[reason] ?? "Something went wrong on the way; the log of this service says what.";
  return `Signing in with ${name} did not work. ${why}`;
}

/** A message of the server as a sentence. */
export function sentence(message) {
  const text = String(message ?? "").trim();
  if (text === "") return "";
  return `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}

/** What a link to join by gives: a sentence for whoever opened it. */
export function inviteWords({ purpose, makes_operator: makesOperator, role, label, project }) {
  if (purpose === "password")
    return `Set a new password for ${label}. All browsers of this account are signed out.`;
  if (makesOperator) return "You are invited to operate this service: everything, in every project.";
  const where = project ? `the project ${project}` : "a project";
  return role ? `You are invited to ${where} as ${roleName(role)}: ${ROLE_WORDS[role]}` : "You are invited.";
}

const ROLE_WORDS = {
  viewer: "you read everything of it.",
  editor: "you also change its runs, alerts and rules, and share.",
  admin: "you also decide about members, keys, channels and what is kept, and delete runs.",
};

const ROLE_NAMES = { viewer: "Viewer", editor: "Editor", admin: "Admin" };
export const roleName = (role) => ROLE_NAMES[role] ?? String(role);
export const ROLES = Object.entries(ROLE_NAMES).map(([id, name]) => ({ id, name }));
export const ROLE_HINT =
  "Viewers read. Editors also change runs, alerts and rules, and share. Admins also decide about members, keys, channels and what is kept, and delete runs.";

/** The roles of somebody, for the menu. */
export function standingLines({ isOperator, roles }) {
  if (isOperator) return ["Operator: everything, in every project"];
  if (roles.size === 0) return ["In no project yet. Ask an admin for an invitation."];
  return [...roles]
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([name, role]) => `${name}: ${roleName(role)}`);
}

const SIGNS_IN = { password: "by password", provider: "by the provider", nothing: "cannot sign in yet" };

/** How an account stands, below its name. */
export function accountWords({ signs_in_by: by, last_seen_at: seen, closed_at: closed }, nowMs) {
  if (closed) return `closed ${formatAge(closed, nowMs)}`;
  return `${SIGNS_IN[by] ?? by} · ${seen ? `seen ${formatAge(seen, nowMs)}` : "never seen"}`;
}

export const PURPOSES = {
  ingest: {
    name: "Send",
    hint: "For trainers: sends runs and batches, reads nothing back but its own alerts.",
  },
  read: {
    name: "Read",
    hint: "For notebooks and programs: reads everything of the project, changes nothing.",
  },
  worker: { name: "Worker", hint: "For scoring workers: takes batches of all projects and brings results." },
};
export const purposeName = (purpose) => PURPOSES[purpose]?.name ?? String(purpose);

export const LIFETIMES = [
  { id: "30", name: "30 days" },
  { id: "90", name: "90 days" },
  { id: "365", name: "1 year" },
  { id: "", name: "Never" },
];
export const USUAL_LIFETIME = "90";

const DAY_MS = 86_400_000;
const SOON_DAYS = 7;

/** How a key stands, as a state with icon and tone. */
export function keyState({ revoked_at: revoked, expires_at: expires }, nowMs) {
  if (revoked) return { id: "revoked", name: "Revoked", icon: "failed", tone: "quiet" };
  const left = expires ? Date.parse(expires) - nowMs : Infinity;
  if (left <= 0) return { id: "expired", name: "Expired", icon: "stalled", tone: "quiet" };
  if (left < SOON_DAYS * DAY_MS) return { id: "ending", name: "Ends soon", icon: "warning", tone: "warning" };
  return { id: "good", name: "Good", icon: "resolved", tone: "good" };
}

/** When a key was made and used, and until when it is good; `format` gives a day as words. */
export function keyWords(
  { created_at: made, last_used_at: used, expires_at: expires, revoked_at: revoked },
  nowMs,
  format,
) {
  const parts = [`made ${formatAge(made, nowMs)}`, used ? `used ${formatAge(used, nowMs)}` : "never used"];
  if (revoked) parts.push(`revoked ${formatAge(revoked, nowMs)}`);
  else if (expires) parts.push(`${Date.parse(expires) <= nowMs ? "expired" : "until"} ${format(expires)}`);
  else parts.push("does not expire");
  return parts.join(" · ");
}

/** Those that are good first, the newest of them on top. */
export function sortKeys(keys, nowMs) {
  const isOver = (key) => ["revoked", "expired"].includes(keyState(key, nowMs).id);
  return [...keys].sort((a, b) => Number(isOver(a)) - Number(isOver(b)) || b.id - a.id);
}

/** What is removed cannot be brought back, so a slip of the finger must not empty a project. */
export const LEAST_DAYS = 1;
const MOST_DAYS = 36_500;

/** A number of days that was typed: null for none, undefined for what is no number of days. */
export function daysOf(text) {
  const given = String(text).trim().replace(",", ".");
  if (given === "") return null;
  const days = Number(given);
  return days >= LEAST_DAYS && days <= MOST_DAYS ? days : undefined;
}

export const daysText = (days) => (days === null || days === undefined ? "" : String(days));

const afterDays = (days) => plural(days, "day");

/** What is removed and when, in sentences. */
export function retentionLines({ text_days: textDays, run_days: runDays }) {
  const texts =
    textDays === null
      ? "What the model wrote is kept as long as its run."
      : `What the model wrote is removed ${afterDays(textDays)} after it came; metrics and alerts stay.`;
  const runs =
    runDays === null
      ? "Runs are kept until somebody deletes them."
      : `Runs that have ended are deleted for good ${afterDays(runDays)} after their last sign of life, with their metrics and alerts.`;
  return [texts, runs];
}

/** What goes next by the choice that holds; empty when nothing is due. */
export function dueWords({ num_texts_due: texts, num_runs_due: runs }) {
  const parts = [
    texts > 0 ? `the texts of ${plural(texts, "batch", "batches")}` : "",
    runs > 0 ? plural(runs, "run") : "",
  ].filter((text) => text !== "");
  return parts.length === 0 ? "" : `Due now: ${parts.join(" and ")}. They go within minutes.`;
}

/** Whether the new choice removes something that the old one kept. */
export function removesMore(before, after) {
  const sooner = (old, next) => next !== null && (old === null || next < old);
  return sooner(before.text_days, after.text_days) || sooner(before.run_days, after.run_days);
}

/** The outcome of what was done, as a state with icon and tone. */
export function outcomeState(outcome) {
  if (outcome === "done") return { name: "Done", icon: "resolved", tone: "good" };
  if (outcome === "failed") return { name: "Failed", icon: "crashed", tone: "critical" };
  return { name: `Refused: ${outcome.replace(/_/g, " ")}`, icon: "failed", tone: "warning" };
}
