/** A table that becomes a list of cards on a phone. */

import { el, KeyedList, rerender } from "./dom.js";

/**
 * `columns`: `[{name, numeric?, cell(item), wide?}]`, the first one heads its row. `cell` returns
 * `[signature, makeChildren]`, so that what did not change keeps its focus.
 */
export function cardTable({ caption, columns, keyOf, testid }) {
  const body = el("tbody");
  const root = el(
    "table",
    { class: "cards-table", data: { testid } },
    el("caption", { class: "visually-hidden", text: caption }),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        columns.map(({ name, numeric }) =>
          el("th", { scope: "col", class: numeric ? "numeric" : null, text: name }),
        ),
      ),
    ),
    body,
  );
  const rows = new KeyedList(body, { keyOf, create: () => createRow(columns, testid) });
  return { root, update: (items) => rows.update(items) };
}

function createRow(columns, testid) {
  const cells = columns.map(({ name, numeric, wide }, i) =>
    i === 0
      ? el("th", { scope: "row", class: "card-name" })
      : el("td", {
          class: [numeric ? "numeric" : "", wide ? "card-wide" : ""].join(" ").trim() || null,
          data: { label: name },
        }),
  );
  const root = el("tr", { data: { testid: `${testid}-row` } }, cells);
  return {
    root,
    update(item) {
      columns.forEach(({ cell }, i) => {
        const [signature, makeChildren] = cell(item);
        rerender(cells[i], signature, makeChildren);
      });
    },
  };
}

/** A cell that holds text alone. */
export const textCell = (text) => [text, () => [el("span", { text })]];
