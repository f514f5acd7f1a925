/** The measures that stand folded away: loaded and drawn once somebody opens them. */

import { MORE_PANELS } from "../panels.js";
import { el } from "./dom.js";

/** `makeCard(panel)` and `updatePanel(card, panel, data)` are the run's; `onMore` gets whether it is open. */
export function moreMeasures({ makeCard, updatePanel, onMore }) {
  const grid = el("div", { class: "figure-grid" });
  const root = el(
    "details",
    { class: "folded more-measures", data: { testid: "more-measures" } },
    el("summary", { text: "More measures" }),
    grid,
  );
  let cards = [];
  const fill = () => {
    if (cards.length > 0) return;
    cards = MORE_PANELS.map((panel) => ({ panel, card: makeCard(panel) }));
    grid.append(...cards.map(({ card }) => card.root));
  };
  root.addEventListener("toggle", () => {
    if (root.open) fill();
    onMore(root.open);
  });
  return {
    root,
    update({ data }) {
      if (data.showsMore && !root.open) root.open = true;
      if (root.open) fill();
      for (const { panel, card } of cards) updatePanel(card, panel, data);
    },
    destroy() {
      for (const { card } of cards) card.destroy();
    },
  };
}
