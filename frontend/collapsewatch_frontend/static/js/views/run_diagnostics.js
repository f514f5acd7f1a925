/** What could not be scored or computed, evidence of a template, and the run's settings. */

import { retryJob } from "../api.js";
import { formatAge, formatStep, formatValue, plural } from "../format.js";
import { el, KeyedList, rerender, setAttribute, setText } from "./dom.js";
import { icon } from "./icons.js";
import { templatePart } from "./run_template.js";

export function diagnosticsPart({ metricsInfo }) {
  const dead = deadJobsPart();
  const template = templatePart({ metricsInfo });
  const absent = el("dl", { class: "evidence" });
  const absentCard = folded("Metrics that could not be computed", absent, "absent-metrics");
  const config = el("dl", { class: "evidence" });
  const configCard = folded("Run settings", config, "run-config");
  const root = el("div", { class: "diagnostics" }, dead.root, template.root, absentCard.root, configCard.root);
  return {
    root,
    update(view) {
      const { data } = view;
      const { summary } = data;
      dead.update(data);
      template.update(view);
      const reasons = Object.entries({ ...data.step?.evaluation?.absent, ...summary.absent });
      absentCard.show(
        reasons.length,
        plural(reasons.length, "metric could", "metrics could") + " not be computed",
      );
      rerender(absent, JSON.stringify(reasons), () =>
        reasons.map(([name, reason]) => pair(metricsInfo[name]?.title ?? name, reason)),
      );
      const settings = Object.entries({ id: summary.run_id, ...summary.config });
      configCard.show(settings.length, "Run settings");
      rerender(config, JSON.stringify(settings), () =>
        settings.map(([key, value]) => pair(key, formatValue(value))),
      );
    },
    destroy: () => template.destroy(),
  };
}

const pair = (key, value) => el("div", {}, el("dt", { text: key }), el("dd", { text: value }));

function folded(title, body, testid) {
  const summary = el("summary", { text: title });
  const root = el("details", { class: "card folded", hidden: true, data: { testid } }, summary, body);
  return {
    root,
    show(count, text) {
      root.hidden = count === 0;
      setText(summary, text);
    },
  };
}

/** Batches that failed every start, with what happened and a way to start them again. */
function deadJobsPart() {
  const heading = el("h2", { class: "section-title" });
  const list = el("ul", { class: "alerts" });
  const root = el(
    "section",
    { hidden: true, "aria-label": "Batches that could not be scored", data: { testid: "dead-jobs" } },
    heading,
    list,
  );
  let runId = "";
  const jobs = new KeyedList(list, {
    keyOf: (job) => job.job_id,
    create: (job) => createJob(job, () => runId),
  });
  return {
    root,
    update(data) {
      runId = data.runId;
      root.hidden = data.deadJobs.length === 0;
      setText(heading, `${plural(data.deadJobs.length, "batch", "batches")} could not be scored`);
      jobs.update(data.deadJobs);
    },
  };
}

function createJob(job, runId) {
  const title = el("strong");
  const when = el("p", { class: "alert-when" });
  const error = el("p", { class: "alert-message mono" });
  const traceback = el("code");
  const answer = el("span", { class: "faint", role: "status" });
  const button = el("button", {
    class: "button button-small",
    type: "button",
    data: { testid: "retry-job", focusKey: `retry-${job.job_id}` },
    text: "Score again",
  });
  button.addEventListener("click", () => retry(button, answer, runId(), job.job_id));
  const root = el(
    "li",
    { class: "card alert severity-warning", data: { testid: "dead-job" } },
    el("div", { class: "alert-head" }, icon("warning"), title, when, button, answer),
    error,
    el(
      "details",
      { class: "alert-evidence" },
      el("summary", { text: "Traceback" }),
      el("pre", { tabindex: "0" }, traceback),
    ),
  );
  return {
    root,
    update(latest) {
      setText(title, `Step ${formatStep(latest.step)}`);
      setText(
        when,
        `batch ${latest.batch_id}, gave up after ${plural(latest.starts, "start")}, ${formatAge(latest.finished_at, Date.now())}`,
      );
      setText(error, latest.error ?? "no message");
      setText(traceback, latest.traceback || "no traceback");
    },
  };
}

async function retry(button, answer, runId, jobId) {
  setAttribute(button, "disabled", true);
  setText(answer, "asking …");
  try {
    await retryJob(runId, jobId);
    setText(answer, "queued again");
  } catch (error) {
    setText(answer, `not queued: ${error.message}`);
    setAttribute(button, "disabled", false);
  }
}
