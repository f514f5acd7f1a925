import assert from "node:assert/strict";
import test from "node:test";

import { REGIMES } from "../../frontend/collapsewatch_frontend/static/js/regimes.js";
import { filesBelow, readStatic } from "./helpers.js";

const CSS = readStatic("css/tokens.css").replace(/\/\*[\s\S]*?\*\//g, "");
const TOKENS = new Map(
  [...CSS.matchAll(/--([a-z0-9-]+):\s*([^;]+);/g)].map(([, name, value]) => [name, value.trim()]),
);

/** The token as `#rrggbb` in one theme. */
function resolve(name, theme) {
  let value = TOKENS.get(name);
  assert.ok(value !== undefined, `no token --${name}`);
  const pair = /^light-dark\((.+),\s*(.+)\)$/.exec(value);
  if (pair !== null) value = theme === "light" ? pair[1] : pair[2];
  const reference = /^var\(--([a-z0-9-]+)\)$/.exec(value);
  return reference === null ? value : resolve(reference[1], theme);
}

/** Relative luminance as WCAG 2 defines it. */
function luminance(hex) {
  const channels = [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16) / 255);
  const [red, green, blue] = channels.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

test("black on white has the contrast that the definition gives", () => {
  assert.ok(Math.abs(contrast("#000000", "#ffffff") - 21) < 1e-9);
});

const GROUNDS = ["bg", "surface", "surface-sunken", "surface-raised"];
const INKS = ["text", "text-soft", "text-faint", "accent", "good", "critical", "warning", "info"];
const REGIME_INKS = [...new Set(Object.values(REGIMES).map((info) => `regime-${info.colour}`))];

for (const theme of ["light", "dark"]) {
  test(`text reaches 4.5 to 1 on every ground in the ${theme} theme`, () => {
    for (const ground of GROUNDS) {
      for (const ink of [...INKS, ...REGIME_INKS]) {
        const ratio = contrast(resolve(ink, theme), resolve(ground, theme));
        assert.ok(ratio >= 4.5, `${ink} on ${ground}: ${ratio.toFixed(2)}`);
      }
    }
  });

  test(`lines and the newest end of the colour scale reach 3 to 1 in the ${theme} theme`, () => {
    for (const ink of ["series-1", "series-2", "series-3", "series-4", "scale-2", "scale-3", "focus"]) {
      const ratio = contrast(resolve(ink, theme), resolve("surface", theme));
      assert.ok(ratio >= 3, `${ink}: ${ratio.toFixed(2)}`);
    }
  });

  test(`the colour scale goes one way, so that it reads without hue, in the ${theme} theme`, () => {
    const steps = [0, 1, 2, 3].map((i) => contrast(resolve(`scale-${i}`, theme), resolve("surface", theme)));
    assert.deepEqual(
      steps,
      [...steps].sort((a, b) => a - b),
    );
  });
}

test("every custom property that a style sheet uses is defined", () => {
  const local = new Set(["tone", "urgency"]);
  for (const path of filesBelow("css", ".css")) {
    for (const [, name] of readStatic(path).matchAll(/var\(--([a-z0-9-]+)\)/g)) {
      assert.ok(TOKENS.has(name) || local.has(name), `${path} uses --${name}`);
    }
  }
});
