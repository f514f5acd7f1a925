/** What several test files need. */

import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const STATIC = join(
  dirname(fileURLToPath(import.meta.url)),
  "../../frontend/collapsewatch_frontend/static",
);

export const readStatic = (path) => readFileSync(join(STATIC, path), "utf8");

/** Paths below `folder` that end in `suffix`, relative to the static folder. */
export function filesBelow(folder, suffix) {
  return readdirSync(join(STATIC, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) return filesBelow(path, suffix);
    return path.endsWith(suffix) ? [path] : [];
  });
}

/** A theme as the page hands it to the figures. */
export const THEME = {
  dark: false,
  font: "sans-serif",
  fontSize: 12,
  text: "rgb(16, 21, 29)",
  textSoft: "rgb(72, 82, 96)",
  textFaint: "rgb(93, 103, 117)",
  surface: "rgb(255, 255, 255)",
  raised: "rgb(255, 255, 255)",
  sunken: "rgb(233, 236, 241)",
  line: "rgb(220, 225, 232)",
  grid: "rgb(232, 235, 240)",
  muted: "rgb(141, 151, 165)",
  series: ["rgb(31, 95, 191)", "rgb(194, 90, 6)", "rgb(11, 122, 102)", "rgb(134, 53, 139)"],
  scale: ["rgb(196, 211, 230)", "rgb(127, 166, 214)", "rgb(59, 111, 181)", "rgb(31, 42, 107)"],
  regimes: {
    diverse: "rgb(11, 115, 96)",
    template: "rgb(187, 61, 8)",
    compressed: "rgb(42, 99, 173)",
    entropy: "rgb(134, 53, 139)",
    open: "rgb(93, 103, 117)",
  },
  severities: { critical: "rgb(179, 32, 26)", warning: "rgb(138, 90, 0)", info: "rgb(42, 99, 173)" },
};

export const series = (steps, values, extra = {}) => ({ steps, values, ...extra });

export function point(step, diversity, dependence, extra = {}) {
  return {
    step,
    diversity,
    diversity_low: diversity === null ? null : diversity - 0.05,
    diversity_high: diversity === null ? null : diversity + 0.05,
    dependence,
    dependence_low: dependence - 0.1,
    dependence_high: dependence + 0.1,
    regime: "diverse_reasoning",
    reason: "",
    scorer: "policy",
    ...extra,
  };
}
