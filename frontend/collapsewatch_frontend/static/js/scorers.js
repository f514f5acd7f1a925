/** Which scorer made which points of a run: another one's numbers are another measure. Pure. */

/** Stretches of neighbouring points of one scorer, `[{scorer, from, to}]`, in step order. */
export function scorerSpans(points) {
  const spans = [];
  for (const { step, scorer } of points) {
    const last = spans[spans.length - 1];
    if (last?.scorer === scorer) last.to = step;
    else spans.push({ scorer, from: step, to: step });
  }
  return spans;
}

/** Labels of the scorers of a run, the newest first. */
export function scorersOf(points) {
  return [...new Set([...points].reverse().map((point) => point.scorer))];
}

/** Of a series the points that a scorer made; all of it without one, or when nothing tells who made what. */
export function ofScorer(series, spans, scorer) {
  const own = spans.filter((span) => span.scorer === scorer);
  if (scorer === "" || own.length === 0) return series;
  const kept = series.steps.flatMap((step, i) =>
    own.some(({ from, to }) => step >= from && step <= to) ? [i] : [],
  );
  const pick = (column) => (column?.length > 0 ? kept.map((i) => column[i]) : column);
  const { steps, values, low, high } = series;
  return { ...series, steps: pick(steps), values: pick(values), low: pick(low), high: pick(high) };
}
