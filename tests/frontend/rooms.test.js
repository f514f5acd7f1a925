import assert from "node:assert/strict";
import { posix } from "node:path";
import test from "node:test";

import { filesBelow, readStatic } from "./helpers.js";

const MODULES = filesBelow("js", ".js");
const code = (path) =>
  readStatic(path)
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .replace(/(^|\s)\/\/.*$/gm, "");
const isView = (path) => path.startsWith("js/views/");
const BOOT = ["js/theme-boot.js", "js/app.js", "js/first_asks.js", "js/shared_app.js", "js/live_worker.js"];

function modulesWith(pattern) {
  return MODULES.filter((path) => pattern.test(code(path)));
}

test("there are modules to check", () => {
  assert.ok(MODULES.length > 20);
});

test("only api.js and the stream's world touch the network", () => {
  assert.deepEqual(modulesWith(/\bfetch\(|new EventSource\(|XMLHttpRequest|sendBeacon/), [
    "js/api.js",
    "js/live_world.js",
  ]);
});

test("only charts.js and the module that loads it touch Plotly", () => {
  assert.deepEqual(modulesWith(/\bPlotly\b/), ["js/charts.js", "js/plotly_library.js"]);
});

test("the rest knows neither page nor window", () => {
  const allowed = (path) =>
    isView(path) || BOOT.includes(path) || ["js/api.js", "js/charts.js", "js/plotly_library.js"].includes(path);
  assert.deepEqual(
    modulesWith(/\b(document|window|localStorage|navigator)\b[.[]/).filter((path) => !allowed(path)),
    [],
  );
});

test("pure modules import no view and nothing of the network or Plotly", () => {
  for (const path of MODULES.filter((each) => !isView(each) && !BOOT.includes(each))) {
    const imports = [...code(path).matchAll(/from "([^"]+)"/g)].map(([, target]) =>
      posix.join(posix.dirname(path), target),
    );
    for (const target of imports) {
      assert.ok(!isView(target), `${path} imports ${target}`);
      assert.ok(!["js/api.js", "js/charts.js"].includes(target), `${path} imports ${target}`);
    }
  }
});

test("every import leads to a module", () => {
  for (const path of MODULES) {
    for (const [, target] of code(path).matchAll(/from "([^"]+)"/g)) {
      assert.ok(MODULES.includes(posix.join(posix.dirname(path), target)), `${path} imports ${target}`);
    }
  }
});

test("text never becomes markup", () => {
  const markup =
    /innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc/;
  assert.deepEqual(modulesWith(markup), []);
  assert.deepEqual(modulesWith(/\beval\(|new Function\(|javascript:/), []);
});

test("the page obeys a strict content security policy", () => {
  const html = readStatic("index.html");
  assert.equal(/<script(?![^>]*\bsrc=)[^>]*>/.test(html), false, "inline script");
  assert.equal(/\son[a-z]+\s*=/.test(html), false, "inline event handler");
  assert.equal(/\sstyle\s*=|<style/.test(html), false, "inline style");
  assert.equal(/https?:\/\//.test(html), false, "something from elsewhere");
  assert.ok(html.includes("/vendor/plotly.min.js?v=__PLOTLY_VERSION__"));
});

test("every file that the page names exists", () => {
  const html = readStatic("index.html");
  for (const [, path] of html.matchAll(/(?:src|href)="\/static\/([^"]+)"/g)) readStatic(path);
});

test("style sheets fetch nothing from elsewhere", () => {
  for (const path of filesBelow("css", ".css"))
    assert.equal(/@import|url\(/.test(readStatic(path)), false, path);
});
