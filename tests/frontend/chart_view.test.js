import assert from "node:assert/strict";
import test from "node:test";

import {
  ChartView,
  viewChoice,
  viewQuery,
} from "../../frontend/collapsewatch_frontend/static/js/chart_view.js";

test("listeners are told what changed, and not of what stayed as it was", () => {
  const view = new ChartView();
  const told = [];
  const stop = view.subscribe((change) => told.push(change));
  view.setStyle({ smoothing: 0.5 });
  view.setStyle({ smoothing: 0.5 });
  view.zoom([3, 9]);
  view.zoom([3.04, 9]);
  view.select(4);
  view.select(4);
  view.hover(5, "a");
  view.hover(null, "a");
  view.hover(null, "a");
  stop();
  view.zoom(null);
  assert.deepEqual(told, ["style", "range", "selected", "cursor", "cursor"]);
});

test("a stretch stands in order and is never a single point", () => {
  const view = new ChartView();
  view.zoom([9, 3]);
  assert.deepEqual(view.range, [3, 9]);
  view.zoom([5, 5.2]);
  assert.deepEqual(view.range, [4.5, 5.5]);
});

test("times are the axis only once they are known", () => {
  const view = new ChartView({ axis: "time" });
  assert.equal(view.onTime, false);
  view.setClock({ isKnown: false });
  assert.equal(view.onTime, false);
  view.setClock({ isKnown: true });
  assert.equal(view.onTime, true);
});

test("a view survives the address, and the usual one leaves it empty", () => {
  const choice = { smoothing: 0.62, log: true, axis: "time", range: [10, 40.5] };
  const params = new URLSearchParams(viewQuery(choice));
  assert.deepEqual(viewChoice(params), choice);
  assert.equal(Object.values(viewQuery(new ChartView())).join(""), "");
});

test("an address that cannot be meant gives the usual view", () => {
  const odd = new URLSearchParams("smooth=7&y=lin&x=tokens&from=9&to=3");
  assert.deepEqual(viewChoice(odd), { smoothing: 0.99, log: false, axis: "step", range: null });
  const empty = new URLSearchParams("smooth=abc&from=&to=5");
  assert.deepEqual(viewChoice(empty), { smoothing: 0, log: false, axis: "step", range: null });
});
