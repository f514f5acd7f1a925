/** What could not be scored or computed, evidence of a template, and the run's settings. */

import { formatValue, plural } from "../format.js";
import { el, rerender, setText } from "./dom.js";
import { backlogPart } from "./run_backlog.js";
import { jobsPart } from "./run_jobs.js";
import { templatePart } from "./run_template.js";

export function diagnosticsPart({ metricsInfo }) {
  const backlog = backlogPart();
  const dead = jobsPart({
    id: "dead",
    label: "Batches that could not be scored",
    title: (text) => `${text} could not be scored`,
    note: "Each failed at every start. Nothing of them is lost; once the cause is mended, they can be scored again.",
  });
  const thinned = jobsPart({
    id: "thinned",
    label: "Batches that were laid aside",
    title: (text) => `${text} laid aside unscored`,
    note: "Too many newer batches of this run waited. These are kept, and are scored if you ask for it.",
  });
  const template = templatePart({ metricsInfo });
  const absent = el("dl", { class: "evidence" });
  const absentCard = folded("Metrics that could not be computed", absent, "absent-metrics");
  const config = el("dl", { class: "evidence" });
  const configCard = folded("Run settings", config, "run-config");
  const parts = [backlog, dead, thinned, template, absentCard, configCard];
  const root = el(
    "div",
    { class: "diagnostics" },
    parts.map((part) => part.root),
  );
  return {
    root,
    update(view) {
      const { data } = view;
      const { summary } = data;
      backlog.update(data);
      dead.update(summary, data.deadJobs, summary.jobs?.dead ?? 0);
      thinned.update(summary, data.thinnedJobs, summary.jobs?.thinned ?? 0);
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
