/** Batches that were not scored, with what happened and a way to have them scored after all. */

import { may } from "../access.js";
import { retryJob } from "../api.js";
import { formatAge, formatStep, plural, shortName } from "../format.js";
import { el, KeyedList, setAttribute, setText } from "./dom.js";
import { icon } from "./icons.js";

const MAX_SHOWN = 12;
const ID_LENGTH = 12;

/** `title` makes the heading from `3 batches`, `note` explains it; the newest are shown one by one. */
export function jobsPart({ id, label, title, note }) {
  const heading = el("h2", { class: "section-title" });
  const answer = el("span", { class: "faint", role: "status" });
  const all = el("button", {
    class: "button button-small",
    type: "button",
    data: { testid: `retry-all-${id}` },
    text: "Score all again",
  });
  const list = el("ul", { class: "alerts" });
  const rest = el("p", { class: "faint jobs-note" });
  const root = el(
    "section",
    { hidden: true, "aria-label": label, data: { testid: `${id}-jobs` } },
    el("div", { class: "section-head" }, heading, all, answer),
    el("p", { class: "card-note jobs-note", text: note }),
    list,
    rest,
  );
  let runId = "";
  let isAllowed = false;
  let known = [];
  all.addEventListener("click", () => retryAll(all, answer, runId, known));
  const cards = new KeyedList(list, {
    keyOf: (job) => job.job_id,
    create: (job) => createJob(job, { id, runId: () => runId, isAllowed: () => isAllowed }),
  });
  return {
    root,
    /** `count` is how many there are; the server lists the newest of very many. */
    update({ run_id: ofRun, project }, jobs, count) {
      runId = ofRun;
      isAllowed = may("job.retry", project);
      known = jobs;
      root.hidden = jobs.length === 0;
      setText(heading, title(plural(count, "batch", "batches")));
      all.hidden = jobs.length < 2 || !isAllowed;
      cards.update(jobs.slice(0, MAX_SHOWN));
      const left = count - MAX_SHOWN;
      setText(rest, left > 0 ? `${plural(left, "older one")} not listed here.` : "");
    },
  };
}

function createJob(job, { id, runId, isAllowed }) {
  const title = el("strong");
  const when = el("p", { class: "alert-when" });
  const error = el("p", { class: "alert-message mono" });
  const traceback = el("code");
  const details = el(
    "details",
    { class: "alert-evidence" },
    el("summary", { text: "Traceback" }),
    el("pre", { tabindex: "0" }, traceback),
  );
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
    { class: "card alert severity-warning", data: { testid: `${id}-job` } },
    el("div", { class: "alert-head" }, icon("warning"), title, when, button, answer),
    error,
    details,
  );
  return {
    root,
    update(latest) {
      button.hidden = !isAllowed();
      setText(title, `Step ${formatStep(latest.step)}`);
      setText(when, `batch ${shortName(latest.batch_id, ID_LENGTH)}, ${endWords(latest)}`);
      when.title = latest.batch_id;
      setText(error, latest.error ?? "no message");
      details.hidden = !latest.traceback;
      setText(traceback, latest.traceback ?? "");
    },
  };
}

function endWords({ status, starts, finished_at: finishedAt }) {
  const age = finishedAt ? `, ${formatAge(finishedAt, Date.now())}` : "";
  return status === "dead" ? `gave up after ${plural(starts, "start")}${age}` : `laid aside${age}`;
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

/** False when the job is queued already, by another click or another person. */
async function queueAgain(runId, jobId) {
  try {
    await retryJob(runId, jobId);
    return true;
  } catch (error) {
    if (error.status === 409) return false;
    throw error;
  }
}

/** One after the other: a thousand questions at once would only be turned away. */
async function retryAll(button, answer, runId, jobs) {
  setAttribute(button, "disabled", true);
  let queued = 0;
  try {
    for (const job of jobs) {
      if (!(await queueAgain(runId, job.job_id))) continue;
      queued += 1;
      setText(answer, `${formatStep(queued)} of ${formatStep(jobs.length)} queued again`);
    }
  } catch (error) {
    setText(answer, `stopped after ${formatStep(queued)}: ${error.message}`);
  } finally {
    setAttribute(button, "disabled", false);
  }
}
