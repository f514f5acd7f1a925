/** The network: REST and the event stream. */

import { backoffSeconds } from "./refresh.js";

const PREFIX = "/api/v1";
const PROBE_MS = 15_000;
const EVENTS = ["run", "batch", "metrics", "alert", "alert_change", "job", "worker", "service"];

/** An answer of the server that is not a success. */
export class ApiError extends Error {
  /** `details`: `[{loc, message}]`, where a body was wrong. */
  constructor(status, code, message, details = []) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.details = details;
  }
}

async function call(path, options = {}) {
  const response = await fetch(PREFIX + path, { headers: { Accept: "application/json" }, ...options });
  if (response.ok) return response.status === 204 ? null : response.json();
  let error = {};
  try {
    error = (await response.json()).error ?? {};
  } catch {
    // A proxy may answer with a page; the status says enough.
  }
  const message = error.message ?? response.statusText;
  throw new ApiError(response.status, error.code ?? "http_error", message, error.details ?? []);
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
export const getProjects = async () => (await call("/projects")).projects;
export const getMetricsInfo = async () => (await call("/metrics-info")).metrics;
export const getRun = (runId) => call(runPath(runId));
export const getAlerts = async (runId) => (await call(`${runPath(runId)}/alerts`)).alerts;
/** Jobs of one status (`dead`, `thinned`, …), the newest first. */
export const getJobs = async (runId, status) =>
  (await call(`${runPath(runId)}/jobs${query({ status })}`)).jobs;
export const retryJob = (runId, jobId) =>
  call(`${runPath(runId)}/jobs/${encodeURIComponent(jobId)}/retry`, { method: "POST" });
export const getStep = (runId, step, scope) => call(`${runPath(runId)}/steps/${step}${query({ scope })}`);

/** Workers, queue, what waits and what was lost, over all runs. */
export const getService = () => call("/service");

/**
 * Points from `sinceStep` on; all of them without it. Returns `{name: series}`: the run's own, or with
 * `attempt` that attempt's own rows, those that a later one superseded among them.
 */
export async function getSeries(runId, { scope, metrics = [], sinceStep, attempt }) {
  const path = `${runPath(runId)}/series${query({ scope, metric: metrics, since_step: sinceStep, attempt })}`;
  return (await call(path)).series;
}

export const getTrajectory = (runId, { scope, sinceStep, attempt }) =>
  call(`${runPath(runId)}/trajectory${query({ scope, since_step: sinceStep, attempt })}`);

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
export const getDeliveries = (channelId, { before, limit = 20 } = {}) =>
  call(`${channelPath(channelId)}/deliveries${query({ before, limit })}`);

/**
 * The event stream, reconnected for ever with growing pauses.
 *
 * Listeners: `onOpen()` on every (re)connect – load everything again then;
 * `onEvent(name, data)`; `onState({connected, lostAtMs})`.
 */
export class EventStream {
  #listeners;
  #source = null;
  #attempt = 0;
  #timer = null;
  #lastSeenMs = 0;
  #connected = false;

  constructor(listeners) {
    this.#listeners = listeners;
    setInterval(() => this.#probe(), PROBE_MS);
    window.addEventListener("online", () => this.#reconnectNow());
    window.addEventListener("offline", () => this.#lose());
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible" && !this.#connected) this.#reconnectNow();
    });
    // A page that is left must not hold one of the browser's few connections to this server.
    window.addEventListener("pagehide", () => this.#source?.close());
    window.addEventListener("pageshow", (event) => {
      if (event.persisted) this.#reconnectNow();
    });
  }

  start() {
    this.#source?.close();
    const source = new EventSource(`${PREFIX}/stream`);
    this.#source = source;
    source.addEventListener("open", () => this.#open());
    source.addEventListener("hello", () => this.#seen());
    source.addEventListener("error", () => {
      if (source === this.#source) this.#lose();
    });
    for (const name of EVENTS) {
      source.addEventListener(name, (event) => {
        this.#seen();
        this.#listeners.onEvent(name, JSON.parse(event.data));
      });
    }
  }

  #seen() {
    this.#lastSeenMs = Date.now();
  }

  #open() {
    this.#attempt = 0;
    this.#connected = true;
    this.#seen();
    this.#listeners.onState({ connected: true, lostAtMs: null });
    this.#listeners.onOpen();
  }

  #lose() {
    this.#source?.close();
    this.#source = null;
    if (this.#connected || this.#attempt === 0) {
      this.#listeners.onState({
        connected: false,
        lostAtMs: this.#connected ? this.#lastSeenMs : Date.now(),
      });
    }
    this.#connected = false;
    if (this.#timer !== null) return;
    this.#timer = setTimeout(
      () => {
        this.#timer = null;
        this.start();
      },
      backoffSeconds(this.#attempt) * 1000,
    );
    this.#attempt += 1;
  }

  #reconnectNow() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.start();
  }

  /** A dead connection can look open for minutes, so silence is checked with a question. */
  async #probe() {
    if (!this.#connected || Date.now() - this.#lastSeenMs < PROBE_MS) return;
    try {
      const response = await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(5_000) });
      if (response.ok) this.#seen();
      else this.#lose();
    } catch {
      this.#lose();
    }
  }
}
