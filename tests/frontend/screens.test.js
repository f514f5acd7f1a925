import assert from "node:assert/strict";
import test from "node:test";

import { Screens } from "../../frontend/collapsewatch_frontend/static/js/screens.js";
import { readStatic } from "./helpers.js";

test("every address that routes know has a screen", () => {
  const named = [...readStatic("js/routes.js").matchAll(/screen: "([\w-]+)"/g)].map((found) => found[1]);
  const without = new Set(["join", "sign-in", "unknown"]);
  assert.ok(named.length > 10);
  for (const name of named.filter((one) => !without.has(one))) assert.ok(new Screens().has(name), name);
});

test("a screen is loaded once, and again after it did not come", async () => {
  let numLoads = 0;
  let isAway = true;
  const mount = () => {};
  const screens = new Screens({
    async run() {
      numLoads += 1;
      if (isAway) throw new Error("no server");
      return mount;
    },
  });
  await assert.rejects(screens.load("run"), /no server/);
  assert.equal(screens.mountOf("run"), undefined);
  isAway = false;
  await Promise.all([screens.load("run"), screens.load("run")]);
  await screens.load("run");
  assert.equal(screens.mountOf("run"), mount);
  assert.equal(numLoads, 2);
});

test("loading all passes over what does not come", async () => {
  const screens = new Screens({
    a: () => Promise.reject(new Error("no server")),
    b: async () => () => {},
  });
  await screens.loadAll();
  assert.equal(screens.mountOf("a"), undefined);
  assert.ok(screens.mountOf("b"));
  assert.ok(!screens.has("constructor"));
});
