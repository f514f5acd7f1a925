/** The bar above the charts of a comparison: what holds for all of them, and which runs they show. */

import { missingAxes, toggled } from "../compare_drawn.js";
import { chartTools } from "./chart_tools.js";
import { axisSwitch, compareLegend } from "./compare_controls.js";

/**
 * Builds the bar. `state` is `{data, view, emphasis}`; `change(patch)` takes a change of the choice, `show()` draws
 * again when another run stands out.
 */
export function compareBar({ state, change, show }) {
  const { data, view } = state;
  const axis = axisSwitch({ change });
  const tools = chartTools({ view, axis });
  const legend = compareLegend({
    onToggle: (item) => change({ hidden: toggled(data.choice.hidden, item) }),
    onEmphasis: (name) => {
      if (name === state.emphasis) return;
      state.emphasis = name;
      show();
    },
  });
  tools.root.append(legend.root);
  return {
    root: tools.root,
    /** `drawn`: what `drawnState` makes. */
    update(drawn) {
      axis.update(data.shown.axis, missingAxes(data.runs));
      tools.root.dataset.axis = data.shown.axis;
      tools.update(data.placeRange());
      legend.update(drawn.items);
    },
    destroy() {
      tools.destroy();
      legend.destroy();
    },
  };
}
