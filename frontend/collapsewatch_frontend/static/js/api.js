/** The network: REST and the event stream. */

import { noteProjects } from "./access.js";
import { LiveHub, SIGN_MS } from "./live_hub.js";
import { liveWorld } from "./live_world.js";
import { apiPrefix } from "./shared.js";

const PREFIX = apiPrefix();

/** An answer of the server that is not a success. */
export class ApiError extends Error {
  /** `details`: `[{loc, message}]`, where a body was wrong; `retryAfterSeconds`: null where nobody says. */
  constructor(status, code, message, details = [], retryAfterSeconds = null) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.details = details;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

let tellSignedOut = () => {};

/** Has `listener` called whenever the server no longer knows who uses the page. */
export function onSignedOut(listener) {
  tellSignedOut = listener;
}

/** Answers that were asked for before their screen was there, by path; each is taken once. */
const ahead = new Map();
let isAhead = false;

/** Answer of a path: what was asked for ahead, or what the server says now. */
function call(path, options = {}) {
  if (options.method !== undefined) return fetchAnswer(path, options);
  if (isAhead) {
    const answer = fetchAnswer(path, options);
    // Whoever needs it is told of the failure; until then nobody has to be.
    answer.catch(() => {});
    ahead.set(path, answer);
    return answer;
  }
  const known = ahead.get(path);
  ahead.delete(path);
  return known ?? fetchAnswer(path, options);
}

async function fetchAnswer(path, options) {
  const response = await fetch(PREFIX + path, { headers: { Accept: "application/json" }, ...options });
  if (response.ok) return response.status === 204 ? null : response.json();
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    // A proxy may answer with a page; the status says enough.
  }
  const message = error.message ?? response.statusText;
  // A wrong password is refused with the same status, under a name of its own.
  if (response.status === 401 && error.code === "unauthorised") tellSignedOut();
  const wait = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  const details = error.details ?? [];
  throw new ApiError(response.status, error.code ?? "http_error", message, details, wait || null);
}

const send = (method, path, body) =>
  call(path, {
    method,
    headers: { Accept: "application/json", "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });

function query(values) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== undefined && item !== null && item !== "") params.append(name, item);
    }
  }
  const text = params.toString();
  return text === "" ? "" : `?${text}`;
}

const runPath = (runId) => `/runs/${encodeURIComponent(runId)}`;

export const getRuns = async (project = "") => (await call(`/runs${query({ project })}`)).runs;
/**
 * Lines of the list: `{rows, num_active, num_archived, config_keys}`, with `runIds` only of those.
 * @param {Record<string, any>} choice
 */
export const getRunRows = ({ project, archived, groupBy, runIds, limit }) =>
  call(`/run-list${query({ project, archived: archived || "", group_by: groupBy, run: runIds, limit })}`);
export const getSparklines = async (runIds) =>
  (await call(`/run-list/sparklines${query({ run: runIds })}`)).sparklines;
/** `about`: `{name?, tags?, notes?, archived?}`. */
export const changeRun = (runId, about) => send("PATCH", `${runPath(runId)}/about`, about);
export const deleteRun = (runId) => call(runPath(runId), { method: "DELETE" });
/** Projects with what may be done in them, which is noted on the way. */
export async function getProjects() {
  const { projects } = await call("/projects");
  noteProjects(projects);
  return projects;
}
export const getMetricsInfo = async () => (await call("/metrics-info")).metrics;
export const getRun = (runId) => call(runPath(runId));
export const getAlerts = async (runId) => (await call(`${runPath(runId)}/alerts`)).alerts;
/** Jobs of one status (`dead`, `thinned`, …), the newest first. */
export const getJobs = async (runId, status) =>
  (await call(`${runPath(runId)}/jobs${query({ status })}`)).jobs;
export const retryJob = (runId, jobId) =>
  call(`${runPath(runId)}/jobs/${encodeURIComponent(jobId)}/retry`, { method: "POST" });
export const getStep = (runId, step, scope) => call(`${runPath(runId)}/steps/${step}${query({ scope })}`);
/** When the steps were, and where another policy version begins. */
export const getClock = (runId) => call(`${runPath(runId)}/clock`);
/** What each filter rule would have kept of a step's prompts, and when it last kept them. */
export const getKept = (runId, step) => call(`${runPath(runId)}/steps/${step}/kept`);

/** Rollouts of a step in short: `{step, attempt, group, order, offset, limit}`, all optional. */
export const getRollouts = (runId, choice) => call(`${runPath(runId)}/rollouts${query(choice)}`);
/**
 * @param {string} runId
 * @param {number} step
 * @param {number} index
 * @param {Record<string, any>} [choice]
 */
export const getRollout = (runId, step, index, { attempt } = {}) =>
  call(`${runPath(runId)}/rollouts/${step}/${index}${query({ attempt })}`);
/** One stretch of a search: `{q, where, attempt, from_step, from_index, limit}`. */
export const searchRollouts = (runId, wanted) => call(`${runPath(runId)}/rollout-search${query(wanted)}`);
/** The shared phrases of a step and their share over the run; `is_complete` says whether to ask again. */
export const getTemplate = (runId, choice) => call(`${runPath(runId)}/template${query(choice)}`);

/** Workers, queue, what waits and what was lost, over all runs. */
export const getService = () => call("/service");

/**
 * Points from `sinceStep` on; all of them without it. Returns `{name: series}`: the run's own, or with
 * `attempt` that attempt's own rows, those that a later one superseded among them. `fromStep` and `toStep` are
 * what a figure shows: the points next to them come along. Of more than `maxPoints` come the extremes.
 * @param {string} runId
 * @param {Record<string, any>} question
 */
export async function getSeries(runId, { scope, metrics = [], attempt, ...stretch }) {
  const path = `${runPath(runId)}/series${query({ scope, metric: metrics, attempt, ...steps(stretch) })}`;
  return (await call(path)).series;
}

/**
 * @param {string} runId
 * @param {Record<string, any>} question
 */
export const getTrajectory = (runId, { scope, attempt, ...stretch }) =>
  call(`${runPath(runId)}/trajectory${query({ scope, attempt, ...steps(stretch) })}`);

/** @param {Record<string, any>} stretch */
const steps = ({ sinceStep, fromStep, toStep, maxPoints }) => ({
  since_step: sinceStep,
  from_step: fromStep,
  to_step: toStep,
  max_points: maxPoints,
});

/** Where several runs stand, and what groups of them come to. */
export const getComparison = (runIds, { scope, scalars = [], groupBy = [] }) =>
  call(`/compare${query({ run: runIds, scope, scalar: scalars, group_by: groupBy })}`);

/** Metrics of several runs on one axis; `range` is the part of it that is shown. */
export const getComparedSeries = (
  runIds,
  { scope, metrics, axis, groupBy = [], maxPoints, range = null, intervals = true },
) =>
  call(
    `/compare/series${query({
      run: runIds,
      scope,
      metric: metrics,
      axis,
      group_by: groupBy,
      max_points: maxPoints,
      from_place: range?.[0],
      to_place: range?.[1],
      intervals: intervals ? undefined : "false",
    })}`,
  );

/** The ways of several runs through the quadrant. */
export const getComparedPaths = (runIds, { scope, groupBy = [] }) =>
  call(`/compare/paths${query({ run: runIds, scope, group_by: groupBy })}`);

/** A page of the inbox; `filters` are the query of the address, several states and severities allowed. */
export const getInbox = (filters) => call(`/alerts${query(filters)}`);
export const getAlert = (alertId) => call(`/alerts/${encodeURIComponent(alertId)}`);
/** What the model wrote at the alert's step and at baseline; reads whole batches, so only on demand. */
export const getAlertTraces = (alertId) => call(`/alerts/${encodeURIComponent(alertId)}/traces`);
/** `kind`: acknowledge, snooze, resolve or reopen; `body`: `{by, note, seconds?}`. */
export const handleAlert = (alertId, kind, body) =>
  send("POST", `/alerts/${encodeURIComponent(alertId)}/${kind}`, body);

const rulePath = (ruleId) => `/alert-rules/${encodeURIComponent(ruleId)}`;

export const getRules = async () => (await call("/alert-rules")).rules;
export const createRule = (rule) => send("POST", "/alert-rules", rule);
export const changeRule = (ruleId, rule) => send("PUT", rulePath(ruleId), rule);
export const removeRule = (ruleId) => call(rulePath(ruleId), { method: "DELETE" });
export const previewRule = (rule) => send("POST", "/alert-rules/preview", rule);
export const exportRules = async () => (await call("/alert-rules/export")).toml;
export const importRules = (toml) => send("POST", "/alert-rules/import", { toml });
export const getDetectors = async () => (await call("/alert-rules/detectors")).detectors;
export const setDetector = (choice) => send("PUT", "/alert-rules/detectors", choice);
export const forgetDetector = (rule, project) =>
  call(`/alert-rules/detectors/${encodeURIComponent(rule)}${query({ project })}`, { method: "DELETE" });

const channelPath = (channelId) => `/channels/${encodeURIComponent(channelId)}`;

export const getChannels = async () => (await call("/channels")).channels;
export const createChannel = (draft) => send("POST", "/channels", draft);
export const updateChannel = (channelId, change) => send("PATCH", channelPath(channelId), change);
export const removeChannel = (channelId) => call(channelPath(channelId), { method: "DELETE" });
export const testChannel = (channelId) => call(`${channelPath(channelId)}/test`, { method: "POST" });
/**
 * @param {any} channelId
 * @param {Record<string, any>} [page]
 */
export const getDeliveries = (channelId, { before, limit = 20 } = {}) =>
  call(`${channelPath(channelId)}/deliveries${query({ before, limit })}`);

/** Who is signed in: `{needs_login, name, is_operator, roles, provider}`. */
export const getSession = () => call("/session", { cache: "no-store" });
export const signIn = (name, password) => send("POST", "/session", { name, password });
export const signOut = () => call("/session", { method: "DELETE" });
/** What a link to join by is for; it stays good. */
export const lookAtLink = (token) => send("POST", "/session/link", { token });
export const join = (token, name, password) => send("POST", "/session/join", { token, name, password });
export const acceptLink = (token) => send("POST", "/session/accept", { token });
export const changePassword = (old, fresh) => send("POST", "/session/password", { old, new: fresh });
/** Where somebody is sent whom another service signs in. */
export const providerHref = () => `${PREFIX}/session/provider`;
/** Where at that service somebody signs in who joins by a link. */
export const joinByProvider = async (token) => (await send("POST", "/session/provider", { token })).url;

export const getAccounts = async () => (await call("/accounts")).accounts;
/** `change`: `{is_operator?, closed?}`. */
export const changeAccount = (accountId, change) => send("PATCH", `/accounts/${accountId}`, change);
export const resetAccount = (accountId) => call(`/accounts/${accountId}/reset`, { method: "POST" });

/** Of a project by its number; of the whole service for null. */
const placeOf = (projectId) => (projectId === null ? "" : `/projects/${projectId}`);
const remove = (path) => call(path, { method: "DELETE" });

export const getMembers = async (projectId) => (await call(`${placeOf(projectId)}/members`)).members;
export const setMember = (projectId, accountId, role) =>
  send("PUT", `${placeOf(projectId)}/members/${accountId}`, { role });
export const removeMember = (projectId, accountId) => remove(`${placeOf(projectId)}/members/${accountId}`);
export const getInvitations = async (projectId) =>
  (await call(`${placeOf(projectId)}/invitations`)).invitations;
export const createInvitation = (projectId, draft) => send("POST", `${placeOf(projectId)}/invitations`, draft);
export const removeInvitation = (projectId, id) => remove(`${placeOf(projectId)}/invitations/${id}`);
export const getKeys = async (projectId) => (await call(`${placeOf(projectId)}/keys`)).keys;
export const createKey = (projectId, draft) => send("POST", `${placeOf(projectId)}/keys`, draft);
export const revokeKey = (projectId, keyId) => remove(`${placeOf(projectId)}/keys/${keyId}`);
export const getRetention = (projectId) => call(`${placeOf(projectId)}/retention`);
export const setRetention = (projectId, choice) => send("PUT", `${placeOf(projectId)}/retention`, choice);
/** A page of what was done: `{before_id, limit, project_id, action}`, all optional. */
export const getAudit = (choice) => call(`/audit${query(choice)}`);
export const auditHref = (choice) => `${PREFIX}/audit/export.csv${query(choice)}`;

/** Address of a file to take away: `report.html`, `series.csv`, `series.parquet`, `chart.png` or `chart.svg`. */
export const exportHref = (kind, choice) => `${PREFIX}/exports/${kind}${query(choice)}`;

/** What a link shows; only on the page that the link opens. */
export const getSharedPage = () => call("");

/** Links that show the run, or all links. */
export const getShares = async (run = "") => (await call(`/shares${query({ run })}`)).shares;
export const createShare = (draft) => send("POST", "/shares", draft);
export const revokeShare = (shareId) => call(`/shares/${encodeURIComponent(shareId)}`, { method: "DELETE" });

/** These questions, whose answers are kept for the screen that will ask them. */
export const aheadApi = Object.fromEntries(
  [
    ...[getRun, getSeries, getTrajectory, getAlerts, getJobs, getStep, getMetricsInfo, getRunRows, getProjects],
    getSession,
    ...[getComparison, getComparedSeries, getComparedPaths],
  ].map((ask) => [ask.name, (...told) => askAhead(() => ask(...told))]),
);

function askAhead(ask) {
  isAhead = true;
  try {
    return ask();
  } finally {
    isAhead = false;
  }
}

/** Drops what no screen has asked for: by now it may have changed. */
export function forgetAhead() {
  ahead.clear();
}

/** Id of the last event that the page knows of, by the server that sent it; null where it does not say. */
function knownEventId() {
  const known = Number(document.documentElement.dataset.lastEventId ?? NaN);
  return Number.isSafeInteger(known) ? known : null;
}

/**
 * The event stream, reconnected for ever with growing pauses; one for all tabs where the browser can share it.
 *
 * Listeners: `onOpen()` when everything has to be loaded (again); `onEvent(name, data)`;
 * `onState({connected, lostAtMs})`. A stream that goes on where it was only tells what was missed.
 */
export class EventStream {
  #listeners;
  #lastEventId = knownEventId();
  #port = null;
  #hub = null;
  #timer = null;
  #watch = new AbortController();

  constructor(listeners) {
    this.#listeners = listeners;
  }

  /** Whether the page was told what is known, so that what it loads now misses nothing. */
  get knowsStart() {
    return this.#lastEventId !== null;
  }

  start() {
    this.#connect();
    this.#say("join");
    this.#timer = setInterval(() => this.#say("sign"), SIGN_MS);
    const { signal } = this.#watch;
    window.addEventListener("online", () => this.#say("nudge"), { signal });
    window.addEventListener("offline", () => this.#say("probe"), { signal });
    document.addEventListener(
      "visibilitychange",
      () => {
        if (document.visibilityState === "visible") this.#say("nudge");
      },
      { signal },
    );
    // A page that is left, and may come back, must not hold what others could use.
    window.addEventListener("pagehide", () => this.#say("leave"), { signal });
    window.addEventListener("pageshow", (event) => event.persisted && this.#say("join"), { signal });
  }

  stop() {
    this.#say("leave");
    clearInterval(this.#timer);
    this.#watch.abort();
  }

  #connect() {
    const hear = (message) => this.#hear(message);
    try {
      const url = new URL("./live_worker.js", import.meta.url);
      const worker = new SharedWorker(url, { type: "module", name: PREFIX });
      // A browser that knows shared workers, but none of modules, says so in this way.
      worker.addEventListener("error", () => this.#stayAlone(), { once: true });
      this.#port = worker.port;
      this.#port.addEventListener("message", (event) => hear(event.data));
      this.#port.start();
    } catch {
      this.#stayAlone({ joined: false });
    }
  }

  /** Without a shared worker the page has a stream of its own. */
  #stayAlone({ joined = true } = {}) {
    if (this.#hub !== null) return;
    this.#hub = new LiveHub(liveWorld(PREFIX));
    this.#port = { postMessage: (message) => this.#hear(message) };
    if (joined) this.#say("join");
  }

  #say(kind) {
    const message = { kind, lastEventId: this.#lastEventId };
    if (this.#hub === null) this.#port.postMessage(message);
    else this.#hub.hear(this.#port, message);
  }

  #hear({ kind, ...message }) {
    if (kind === "state") this.#listeners.onState(message);
    if (kind === "open" && message.fresh) this.#listeners.onOpen();
    if (kind !== "event") return;
    this.#lastEventId = message.id;
    this.#listeners.onEvent(message.name, JSON.parse(message.data));
  }
}
