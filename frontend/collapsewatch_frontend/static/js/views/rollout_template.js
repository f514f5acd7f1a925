/** The phrases that reasonings of different prompts share, and how they spread over the run. */

import { formatPercent, formatStep } from "../format.js";
import { shareAt, shareSeries, templateWords } from "../rollouts.js";
import { sparklinePoints } from "../series.js";
import { notice, scrollRegion, shareBar } from "./components.js";
import { el, rerender, setText, svg } from "./dom.js";

const BOX = { width: 150, height: 34, low: 0, high: 1 };

export function rolloutTemplate({ goTo }) {
  const said = el("p", { class: "card-note", data: { testid: "template-said" } });
  const table = scrollRegion("The shared template");
  const body = el("div");
  table.append(body);
  const root = el(
    "section",
    {
      class: "card rollout-template",
      "aria-label": "The shared template",
      data: { testid: "rollout-template" },
    },
    el("header", { class: "figure-head" }, el("h2", { class: "figure-title", text: "Shared template" })),
    said,
    table,
  );
  return {
    root,
    update({ choice, data }) {
      const { value, error, isLoading } = data.template;
      root.hidden = choice.step === null;
      if (error !== null) setText(said, "");
      else if (value === null) setText(said, isLoading ? "Comparing the reasonings…" : "");
      else
        setText(
          said,
          `${templateWords(value)}${value.is_complete ? "" : " Older steps are still being counted …"}`,
        );
      table.hidden = error === null && (value === null || value.phrases.length === 0);
      rerender(body, JSON.stringify([value, error?.message]), () => {
        if (error !== null)
          return [notice("bad", el("p", { text: `The template could not be read: ${error.message}.` }))];
        return value === null || value.phrases.length === 0 ? [] : [phraseTable(value, goTo)];
      });
    },
  };
}

function phraseTable(template, goTo) {
  const heads = ["Phrase", "Has it", "Prompts", "Share over the run", ""];
  return el(
    "table",
    { class: "data phrase-shares" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        heads.map((text, i) =>
          text === "" ? el("td") : el("th", { scope: "col", class: i === 2 ? "numeric" : null, text }),
        ),
      ),
    ),
    el(
      "tbody",
      {},
      template.phrases.map((phrase) => phraseRow(template, phrase, goTo)),
    ),
  );
}

function phraseRow(template, phrase, goTo) {
  const share = shareAt(template, phrase);
  const prompts =
    phrase.num_prompts === null
      ? "–"
      : `${formatStep(phrase.num_prompts)} of ${formatStep(template.num_prompts)}`;
  return el(
    "tr",
    { data: { testid: "phrase-row" } },
    el(
      "th",
      { scope: "row", class: "cell-prompt" },
      el("span", { class: "prompt-text", title: phrase.text, text: phrase.text }),
    ),
    el(
      "td",
      {},
      el(
        "span",
        { class: "bar-line" },
        shareBar(share ?? 0),
        el("span", { class: "numeric", text: formatPercent(share) }),
      ),
    ),
    el("td", { class: "numeric", data: { label: "prompts" }, text: prompts }),
    el("td", {}, shareLine(template, phrase)),
    el(
      "td",
      {},
      el("button", {
        class: "link-button",
        type: "button",
        "aria-label": `Find the rollouts that have “${phrase.text}”`,
        on: { click: () => goTo({ text: phrase.text.slice(0, 200), where: "response" }, { isPlace: true }) },
        text: "Find",
      }),
    ),
  );
}

/** The share at each read step, and a mark at the step that is shown. */
function shareLine(template, phrase) {
  const series = shareSeries(template, phrase);
  const points = sparklinePoints(series, BOX);
  if (points.length === 0) return el("span", { class: "faint", text: "–" });
  const path = points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  const at = points[series.steps.indexOf(template.step)];
  const last = series.steps.length - 1;
  const label =
    `${formatPercent(series.values[0])} of the responses have it at step ${formatStep(series.steps[0])}, ` +
    `${formatPercent(series.values[last])} at step ${formatStep(series.steps[last])}.`;
  return svg(
    "svg",
    {
      class: "sparkline",
      viewBox: `0 0 ${BOX.width} ${BOX.height}`,
      width: BOX.width,
      height: BOX.height,
      role: "img",
      "aria-label": label,
    },
    svg("path", { class: "sparkline-line", d: path }),
    at === undefined ? null : svg("circle", { class: "sparkline-end", cx: at[0], cy: at[1], r: 2.75 }),
  );
}
