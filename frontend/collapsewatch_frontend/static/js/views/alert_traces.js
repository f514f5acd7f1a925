/** What the model wrote at an alert's step and at baseline; read from the stored batches once it is opened. */

import { getAlertTraces } from "../api.js";
import { baselineWords, leftOutWords, markedParts, missingWords, traceFacts } from "../alert_traces.js";
import { notice } from "./components.js";
import { el, setText } from "./dom.js";

export function tracesPart() {
  const said = el("p", { class: "card-note", role: "status" });
  const body = el("div", { class: "traces" });
  const root = el(
    "details",
    { class: "card folded traces-card", hidden: true, data: { testid: "alert-traces" } },
    el("summary", { data: { focusKey: "traces" }, text: "What the model wrote" }),
    said,
    body,
  );
  let shown = null;
  /** The request whose answer is shown or awaited: an answer to an older one is nobody's any more. */
  let current = null;
  const load = async () => {
    const own = {};
    current = own;
    setText(said, "Reading the batches…");
    body.replaceChildren();
    let parts;
    try {
      const { alertId, phrases } = shown;
      parts = traceParts(await getAlertTraces(alertId), phrases);
    } catch (error) {
      parts = [failure(error, load)];
    }
    if (own !== current) return;
    setText(said, "");
    body.replaceChildren(...parts);
  };
  const loadOnce = () => {
    if (root.open && current === null) load();
  };
  root.addEventListener("toggle", loadOnce);
  return {
    root,
    update(detail) {
      const around = detail.evidence_around;
      root.hidden = detail.run_id === null || around.step === null;
      const phrases = (around.template_evidence?.phrases ?? []).map(({ text }) => text);
      const next = { alertId: detail.alert_id, step: around.step, batch: around.link?.batch_id, phrases };
      if (JSON.stringify(next) === JSON.stringify(shown)) return;
      shown = next;
      current = null;
      loadOnce();
    },
    destroy() {
      current = null;
    },
  };
}

function failure(error, again) {
  return notice(
    "bad",
    el("p", { text: `The traces could not be read: ${error.message}.` }),
    el("button", { class: "button button-small", type: "button", on: { click: again }, text: "Try again" }),
  );
}

function traceParts(traces, phrases) {
  const missing = missingWords(traces);
  return [
    traces.prompts.length > 0 ? legend(phrases) : null,
    missing === ""
      ? null
      : el("p", { class: "card-note", data: { testid: "traces-missing" }, text: missing }),
    ...traces.prompts.map((prompt) => promptPart(prompt, phrases)),
  ].filter((part) => part !== null);
}

function legend(phrases) {
  const words = "The first responses of the batch to the prompts that drove the alert, as the model wrote them.";
  if (phrases.length === 0) return el("p", { class: "card-note", text: words });
  return el(
    "p",
    { class: "card-note" },
    `${words} `,
    el("mark", { class: "shared", text: "Marked" }),
    " are phrases that reasonings of different prompts share.",
  );
}

function promptPart(prompt, phrases) {
  const name = prompt.group_ids.join(", ");
  const [first] = prompt.traces;
  const traces = prompt.traces.map((trace) => tracePart(trace, traceFacts(trace), phrases));
  const then = prompt.baseline;
  return el(
    "section",
    { class: "trace-prompt", "aria-label": `Prompt ${name}`, data: { testid: "trace-prompt" } },
    el("h3", { class: "card-title", text: `Prompt ${name}` }),
    seenPart(first),
    el("div", { class: "trace-grid" }, traces, then === null ? null : baselinePart(prompt, phrases)),
  );
}

function baselinePart(prompt, phrases) {
  const { baseline, is_same_prompt: isSame } = prompt;
  return el(
    "div",
    { class: "trace-baseline", data: { testid: "trace-baseline" } },
    el("p", { class: "trace-when", text: baselineWords(prompt) }),
    isSame ? null : seenPart(baseline),
    tracePart(baseline, traceFacts(baseline), phrases),
  );
}

/** The end of what the model saw. */
function seenPart({ prompt, prompt_left_out: leftOut }) {
  if (prompt === null) return el("p", { class: "card-note", text: "The prompt came as token ids." });
  return textBox("The end of the prompt", "trace-seen", [
    leftOut === 0 ? null : el("span", { class: "faint", text: `(${leftOutWords(leftOut, "before")}) ` }),
    prompt,
  ]);
}

function tracePart(trace, facts, phrases) {
  const leftOut = leftOutWords(trace.response_left_out, "after");
  return el(
    "figure",
    { class: "trace", data: { testid: "trace" } },
    el("figcaption", { class: "faint", text: facts }),
    textBox(
      `Response, ${facts}`,
      "trace-text",
      markedParts(trace.response, phrases).map(({ text, isMarked }) =>
        isMarked ? el("mark", { class: "shared", text }) : text,
      ),
    ),
    leftOut === "" ? null : el("p", { class: "faint trace-rest", text: `… ${leftOut}` }),
  );
}

/** Text that keeps its lines, and scrolls by itself, also by keyboard. */
const textBox = (label, name, children) =>
  el("div", { class: `trace-box ${name}`, tabindex: "0", role: "region", "aria-label": label }, children);
