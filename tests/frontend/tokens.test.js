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

/** What a person of each kind of colour vision sees of linear light (Machado, Oliveira and Fernandes 2009). */
const VISIONS = {
  usual: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protanopia: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deuteranopia: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritanopia: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};
const times = (matrix, vector) => matrix.map((row) => row.reduce((sum, value, i) => sum + value * vector[i], 0));

/** The colour in Oklab, where distances are about those that are seen; 1 is from black to white. */
function seen(hex, vision) {
  const channels = [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16) / 255);
  const light = channels.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  const cones = times(
    [
      [0.4122214708, 0.5363325363, 0.0514459929],
      [0.2119034982, 0.6806995451, 0.1073969566],
      [0.0883024619, 0.2817188376, 0.6299787005],
    ],
    times(VISIONS[vision], light).map((value) => Math.min(1, Math.max(0, value))),
  ).map(Math.cbrt);
  return times(
    [
      [0.2104542553, 0.793617785, -0.0040720468],
      [1.9779984951, -2.428592205, 0.4505937099],
      [0.0259040371, 0.7827717662, -0.808675766],
    ],
    cones,
  );
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

  test(`the colours of runs reach 3 to 1 and stay apart for everybody in the ${theme} theme`, () => {
    const runs = Array.from({ length: 8 }, (_, i) => resolve(`run-${i + 1}`, theme));
    for (const colour of runs) assert.ok(contrast(colour, resolve("surface", theme)) >= 3, colour);
    for (const vision of Object.keys(VISIONS)) {
      const places = runs.map((colour) => seen(colour, vision));
      for (let i = 1; i < places.length; i += 1) {
        for (let j = 0; j < i; j += 1) {
          const distance = Math.hypot(...places[i].map((value, at) => value - places[j][at]));
          assert.ok(distance >= 0.13, `${vision}: ${runs[i]} and ${runs[j]} are ${distance.toFixed(3)} apart`);
        }
      }
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
  const local = new Set(["tone", "urgency", "run-height", "group-height"]);
  for (const path of filesBelow("css", ".css")) {
    for (const [, name] of readStatic(path).matchAll(/var\(--([a-z0-9-]+)\)/g)) {
      assert.ok(TOKENS.has(name) || local.has(name), `${path} uses --${name}`);
    }
  }
});
