/** One rollout, turn by turn: what the model saw, what it wrote, and what of that is marked. */

import { leftOutWords } from "../alert_traces.js";
import { formatStep, plural } from "../format.js";
import { capital, MARKS, markText, responseParts, rolloutFacts, wantedPattern } from "../rollouts.js";
import { notice } from "./components.js";
import { el, rerender, setAttribute, setText } from "./dom.js";
import { icon } from "./icons.js";
import { shadeLegend, tokenParts } from "./rollout_tokens.js";

const LABELS = { reasoning: "Reasoning", action: "Action", response: "Response" };

export function rolloutReader({ goTo, move }) {
  const title = el("h2", { class: "reader-title", "aria-live": "polite", data: { testid: "reader-title" } });
  const facts = el("p", { class: "faint", data: { testid: "reader-facts" } });
  const previous = moveButton("previous", "Previous rollout (k)", () => move(-1));
  const next = moveButton("next", "Next rollout (j)", () => move(1));
  const marks = markChoice(goTo);
  const note = el("p", { class: "card-note", data: { testid: "reader-note" } });
  const legend = shadeLegend();
  const body = el("div", { class: "reader-turns", data: { testid: "reader" } });
  const root = el(
    "article",
    { class: "card reader", "aria-label": "The rollout" },
    el(
      "header",
      { class: "reader-head" },
      el("div", { class: "reader-what" }, title, facts),
      el("div", { class: "reader-move" }, previous, next),
    ),
    el("div", { class: "reader-tools" }, marks.root, legend),
    note,
    body,
    keysHint(),
  );
  return {
    root,
    update({ choice, data }) {
      const { value, error } = data.trace;
      root.hidden = data.list.value !== null && data.list.value.num_rollouts === 0;
      marks.update(choice.mark);
      legend.hidden = choice.mark !== "tokens";
      setText(title, value === null ? titleOf(choice) : `Rollout #${value.index}, prompt ${value.group_id}`);
      setText(facts, value === null ? "" : factsOf(value));
      const template = data.template.value;
      const phrases = choice.mark === "template" ? (template?.phrases ?? []).map(({ text }) => text) : [];
      setText(note, value === null ? "" : noteOf(choice, value, template));
      note.hidden = note.textContent === "";
      rerender(body, JSON.stringify([value, error?.message, choice.mark, choice.text, phrases]), () => {
        if (error !== null) return [notice("bad", el("p", { text: `${capital(error.message)}.` }))];
        if (value === null)
          return [el("p", { class: "faint", text: data.trace.isLoading ? "Reading…" : "" })];
        return turns(value, { mark: choice.mark, phrases, pattern: wantedPattern(choice.text) });
      });
      setAttribute(root, "aria-busy", data.trace.isLoading ? "true" : null);
    },
  };
}

const titleOf = ({ index }) => (index === null ? "No rollout" : `Rollout #${index}`);

function factsOf(rollout) {
  const place = `${formatStep(rollout.index + 1)} of ${plural(rollout.num_rollouts, "rollout")}`;
  const temperature = rollout.temperature === null ? "" : ` · temperature ${rollout.temperature}`;
  const id = rollout.rollout_id === null ? "" : ` · id ${rollout.rollout_id}`;
  return `${place} · ${rolloutFacts(rollout)}${temperature}${id}`;
}

/** What the marks mean here, or why there are none. */
function noteOf({ mark }, rollout, template) {
  if (mark === "template") {
    if (template === null) return "";
    if (template.phrases.length > 0)
      return "Underlined: phrases that reasonings of different prompts share at this step.";
    return template.reason === null ? "" : `Nothing is marked: ${template.reason}.`;
  }
  if (mark !== "tokens") return "";
  const hasAny = rollout.turns.some(({ tokens }) => tokens.length > 0);
  const reason = rollout.tokens_reason ?? "";
  if (hasAny) return reason === "" ? "" : `Only what the trainer sent: ${reason}.`;
  return `No log-probs: the trainer sent none, and ${reason === "" ? "the scorer kept none" : reason}.`;
}

function moveButton(name, label, onClick) {
  return el(
    "button",
    {
      class: "icon-button",
      type: "button",
      "aria-label": label,
      title: label,
      data: { testid: `rollout-${name}` },
      on: { click: onClick },
    },
    icon(name, 18),
  );
}

/** Which marks are drawn, as buttons of which one is pressed. */
function markChoice(goTo) {
  const buttons = MARKS.map(({ id, name }) =>
    el("button", {
      class: "segment",
      type: "button",
      data: { testid: `mark-${id}` },
      on: { click: () => goTo({ mark: id }) },
      text: name,
    }),
  );
  return {
    root: el("div", { class: "segments", role: "group", "aria-label": "What is marked" }, buttons),
    update(mark) {
      MARKS.forEach(({ id }, i) => setAttribute(buttons[i], "aria-pressed", String(id === mark)));
    },
  };
}

function turns(rollout, marks) {
  const shown = rollout.turns.map((turn, i) =>
    el(
      "section",
      { class: "turn", "aria-label": `Turn ${i + 1}`, data: { testid: "turn" } },
      rollout.num_turns > 1
        ? el("h3", { class: "turn-title", text: `Turn ${i + 1} of ${rollout.num_turns}` })
        : null,
      promptPart(turn, marks),
      ...responseBoxes(turn, rollout, marks),
    ),
  );
  const rest = rollout.num_turns - rollout.turns.length;
  if (rest > 0) shown.push(el("p", { class: "faint", text: `${plural(rest, "more turn")} not shown.` }));
  return shown;
}

function promptPart(turn, marks) {
  const tokens = turn.num_prompt_tokens === null ? "" : `, ${plural(turn.num_prompt_tokens, "token")}`;
  if (turn.prompt === null)
    return el("p", { class: "card-note", text: `The prompt came as token ids${tokens}.` });
  const { prompt_gap: gap, prompt_left_out: leftOut, prompt_repeats: repeats } = turn;
  const pattern = marks.pattern;
  const pieces = gap === null ? [turn.prompt] : [turn.prompt.slice(0, gap), turn.prompt.slice(gap)];
  const children = pieces.flatMap((piece, i) => [
    i === 0 ? null : el("span", { class: "faint", text: `\n… ${leftOutWords(leftOut, "after")} …\n` }),
    ...marked(piece, { pattern }),
  ]);
  const before =
    repeats === 0
      ? null
      : el("span", { class: "faint", text: `(${plural(repeats, "character")} as in the turn before) ` });
  return box("Prompt", `what the model saw${tokens}`, "reader-prompt", [before, ...children]);
}

function responseBoxes(turn, rollout, marks) {
  const boxes = [];
  const series = marks.mark === "tokens" ? turn.tokens : [];
  for (const one of series) {
    const { heading, text, fact } = tokenParts(one);
    boxes.push(
      el("p", { class: "faint", text: fact }),
      box(heading, "shaded by log p", "reader-response reader-tokens", text),
    );
  }
  if (series.length === 0 && turn.response !== null) {
    boxes.push(...partBoxes(responseParts(turn.response, rollout), marks));
  } else if (series.length === 0 && turn.reasoning !== null) {
    boxes.push(box("Reasoning", "", "reader-response", marked(turn.reasoning, marks)));
  } else if (series.length === 0) {
    const count = turn.num_response_tokens === null ? "" : `, ${plural(turn.num_response_tokens, "token")}`;
    boxes.push(el("p", { class: "card-note", text: `The response came as token ids${count}.` }));
  }
  if (turn.response_left_out > 0)
    boxes.push(el("p", { class: "faint", text: `… ${leftOutWords(turn.response_left_out, "after")}` }));
  if (turn.action !== null)
    boxes.push(box("Action taken", "as the trainer parsed it", "reader-action", [turn.action]));
  return boxes;
}

/** Reasoning and action in boxes of their own, the tags between them small. */
function partBoxes(parts, marks) {
  return parts.map(({ kind, text }) =>
    kind === "tag"
      ? el("code", { class: "reader-tag", text: text.trim() })
      : box(
          LABELS[kind],
          "",
          kind === "action" ? "reader-action" : "reader-response",
          marked(text, kind === "action" ? { pattern: marks.pattern } : marks),
        ),
  );
}

/** The text as nodes, its marks as elements; never anything but text. */
function marked(text, marks) {
  return markText(text, marks).map(({ text: part, isShared, isFound }) => {
    const inner = isShared ? el("mark", { class: "shared", text: part }) : part;
    return isFound ? el("mark", { class: "found" }, inner) : inner;
  });
}

function box(label, hint, name, children) {
  return el(
    "div",
    { class: "reader-part" },
    el(
      "p",
      { class: "reader-label" },
      el("span", { text: label }),
      hint === "" ? null : el("span", { class: "faint", text: ` ${hint}` }),
    ),
    el("div", { class: `trace-box ${name}`, tabindex: "0", role: "region", "aria-label": label }, children),
  );
}

function keysHint() {
  const keys = [
    ["j", "next"],
    ["k", "previous"],
    ["[", "step back"],
    ["]", "step on"],
    ["m", "marks"],
    ["/", "search"],
  ];
  return el(
    "p",
    { class: "keys-hint" },
    keys.map(([key, text]) => el("span", {}, el("kbd", { text: key }), ` ${text}`)),
  );
}
