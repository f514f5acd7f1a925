/** In what the compared runs differ: their settings, and how they were scored. */

import { configRows, scoringDifference, standsOut } from "../compare.js";
import { formatSetting, plural, shortName } from "../format.js";
import { notice, scrollRegion } from "./components.js";
import { compareKey } from "./compare_key.js";
import { el, rerender, setText } from "./dom.js";

const NAME_LENGTH = 38;

/** How a run was scored; see `scoringDifference`. */
const scoringOf = (run, scope) => ({
  scorer: run.scorer,
  scope,
  sampling: run.sampling,
  temperature: run.temperature,
  template: run.template,
});

/** `onSettings("all" | "")` says whether settings that agree are wanted as well. */
export function comparedDifferences({ onSettings }) {
  const unlike = el("div", { data: { testid: "scored-differently" } });
  const scoring = differenceCard("How the scores differ", "scoring-diff");
  const settings = differenceCard("Settings", "config-diff");
  const all = el("input", {
    type: "checkbox",
    data: { testid: "settings-all" },
    on: { change: () => onSettings(all.checked ? "all" : "") },
  });
  const note = el("p", { class: "card-note" });
  settings.head.append(
    el("label", { class: "control control-check" }, all, el("span", { text: "Also those that agree" })),
  );
  settings.host.before(note);
  return {
    unlike,
    scoring: scoring.root,
    settings: settings.root,
    update({ runs, scope, styles, choice }) {
      const unlikeRows = scoringDifference(runs.map((run) => scoringOf(run, scope)));
      scoring.root.hidden = unlikeRows.length === 0;
      showRows(scoring.host, unlikeRows, { runs, styles });
      showUnlike(unlike, unlikeRows);
      settings.root.hidden = runs.length < 2;
      all.checked = choice.settings === "all";
      const rows = configRows(runs.map((run) => run.config));
      const differing = rows.filter((row) => row.differs);
      setText(note, settingsWords(rows.length, differing.length));
      showRows(settings.host, choice.settings === "all" ? rows : differing, { runs, styles });
    },
  };
}

function settingsWords(count, numDiffering) {
  if (count === 0)
    return "These runs have no settings: pass `config` to `collapsewatch.init` to compare them.";
  if (numDiffering === 0) return `All ${plural(count, "setting")} are the same.`;
  return `${plural(numDiffering, "setting")} of ${count} ${numDiffering === 1 ? "differs" : "differ"}; bold values are unlike those of most runs.`;
}

function showUnlike(host, rows) {
  rerender(host, JSON.stringify(rows), () =>
    rows.length === 0
      ? []
      : [
          notice(
            "warn",
            el("p", {
              text: `These runs were not scored alike (${rows.map(({ key }) => key).join(", ")}): compare how each changes rather than their levels.`,
            }),
          ),
        ],
  );
}

function differenceCard(title, testid) {
  const host = scrollRegion(title);
  const head = el("header", { class: "figure-head" }, el("h2", { class: "figure-title", text: title }));
  const root = el("section", { class: "card compare-card", data: { testid } }, head, host);
  return { root, head, host };
}

function showRows(host, rows, { runs, styles }) {
  rerender(host, JSON.stringify([rows, styles, runs.map((run) => run.name)]), () => {
    if (rows.length === 0) return [];
    const names = runs.map(({ name }, i) =>
      el(
        "th",
        { scope: "col", title: name },
        el(
          "span",
          { class: "ends-name" },
          compareKey(styles[i]),
          el("span", { text: shortName(name, NAME_LENGTH) }),
        ),
      ),
    );
    return [
      el(
        "table",
        { class: "data differences" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "cell-name", text: "Setting" }), names)),
        el("tbody", {}, rows.map(differenceRow)),
      ),
    ];
  });
}

function differenceRow({ key, values }) {
  const unusual = standsOut(values);
  return el(
    "tr",
    {},
    el("th", { scope: "row", class: "cell-name mono", text: key }),
    values.map((value, i) =>
      el("td", {
        class: unusual[i] ? "cell-setting cell-unusual" : "cell-setting",
        text: formatSetting(value),
      }),
    ),
  );
}
