/** How each of many runs looks: colours that are told apart, then other strokes. Pure. */

export const NUM_COLOURS = 8;

const STROKES = [
  { dash: "solid", symbol: "circle", name: "" },
  { dash: "dash", symbol: "square", name: "dashed" },
  { dash: "dot", symbol: "diamond", name: "dotted" },
];

/** The look of the run, or group of runs, at a place of the comparison: a colour token and a stroke. */
export function runStyle(place) {
  const colour = place % NUM_COLOURS;
  const stroke = STROKES[Math.floor(place / NUM_COLOURS) % STROKES.length];
  return { colour, token: `run-${colour + 1}`, ...stroke };
}
