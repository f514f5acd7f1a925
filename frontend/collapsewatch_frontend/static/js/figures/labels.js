/** Where the names of end points stand, so that they hide neither a mark nor one another. Pure. */

/** Estimates for bold text of 12 pixels; a little too wide is better than a covered mark. */
const CHARACTER_PX = 7.2;
const LINE_PX = 18;
const GAP_PX = 11;
const MARK_PX = 9;

/** Sides of the point in order of preference: `[horizontal, vertical]`, 0 for level with it. */
/** @type {[number, number][]} */
const SIDES = [
  [1, 0],
  [-1, 0],
  [1, 1],
  [-1, 1],
  [1, -1],
  [-1, -1],
  [0, 1],
  [0, -1],
];
const COST = { outside: 1000, mark: 100, dot: 1 };

export const textSize = (text) => ({ width: text.length * CHARACTER_PX, height: LINE_PX });

/**
 * One place per label `{x, y, text}`, as Plotly's anchors and shifts. All coordinates are pixels of
 * the plot, y upwards. `marks` (points) and `blocks` (boxes) should stay visible; few `dots` may be covered.
 */
export function placeLabels(labels, { width, height, marks = [], blocks = [], dots = [] }) {
  const taken = [...marks, ...labels].map(markBox).concat(blocks);
  return labels.map((label) => {
    const options = SIDES.map((side) => ({ ...anchors(side), box: boxAt(label, side) }));
    const own = markBox(label);
    const costs = options.map(({ box }) => {
      const outside = box.x0 < 0 || box.y0 < 0 || box.x1 > width || box.y1 > height;
      const hidden = taken.filter((other) => !sameBox(other, own) && overlap(box, other)).length;
      const covered = dots.filter((dot) => overlap(box, { x0: dot.x, x1: dot.x, y0: dot.y, y1: dot.y })).length;
      return (outside ? COST.outside : 0) + hidden * COST.mark + covered * COST.dot;
    });
    const { box, ...place } = options[costs.indexOf(Math.min(...costs))];
    taken.push(box);
    return place;
  });
}

function anchors([horizontal, vertical]) {
  return {
    xanchor: horizontal > 0 ? "left" : horizontal < 0 ? "right" : "center",
    yanchor: vertical > 0 ? "bottom" : vertical < 0 ? "top" : "middle",
    xshift: horizontal * GAP_PX,
    yshift: vertical * GAP_PX,
  };
}

function boxAt({ x, y, text }, [horizontal, vertical]) {
  const { width, height } = textSize(text);
  const x0 = x + horizontal * GAP_PX + width * ((horizontal - 1) / 2);
  const y0 = y + vertical * GAP_PX + height * ((vertical - 1) / 2);
  return { x0, x1: x0 + width, y0, y1: y0 + height };
}

const markBox = ({ x, y }) => ({ x0: x - MARK_PX, x1: x + MARK_PX, y0: y - MARK_PX, y1: y + MARK_PX });
const sameBox = (a, b) => a.x0 === b.x0 && a.y0 === b.y0;
const overlap = (a, b) => a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
