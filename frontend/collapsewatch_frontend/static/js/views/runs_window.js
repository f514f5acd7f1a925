/** Which lines of a long list are in sight, and room in place of all others. */

import { lineOffsets, visibleLines } from "../runs_view.js";
import { el } from "./dom.js";

/** Lines beyond the edges, so that a quick scroll finds them there. */
const MARGIN_PX = 600;

/** A body without lines, as tall as those that it stands for. */
export function spacer(numColumns) {
  const cell = el("td", { colspan: numColumns });
  const line = el("tr", { role: "presentation" }, cell);
  return { cell, body: el("tbody", { class: "spacer", role: "presentation" }, line) };
}

/** `table` has the heights of its lines in its style; `onMove` is called when others may be in sight. */
export class LineWindow {
  #table;
  #above;
  #below;
  #onMove;
  #lines = [];
  #offsets = [0];

  constructor({ table, above, below }, onMove) {
    this.#table = table;
    this.#above = above;
    this.#below = below;
    this.#onMove = onceAFrame(onMove);
    window.addEventListener("scroll", this.#onMove, { passive: true });
    window.addEventListener("resize", this.#onResize);
  }

  setLines(lines) {
    this.#lines = lines;
    this.#measure();
  }

  /** Makes room for what is not in sight; answers the lines that are, `[first, end)`. */
  settle() {
    const start = this.#start();
    const seen = visibleLines(this.#offsets, -start, window.innerHeight - start, MARGIN_PX);
    this.#above.cell.style.height = `${this.#offsets[seen.first]}px`;
    this.#below.cell.style.height = `${this.#offsets[this.#lines.length] - this.#offsets[seen.end]}px`;
    return seen;
  }

  /** Scrolls as little as it takes to have all of the line under the top bar and above the lower edge. */
  bringIntoSight(index) {
    const start = this.#start();
    const bar = Number.parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0;
    const [top, bottom] = [start + this.#offsets[index], start + this.#offsets[index + 1]];
    if (top < bar) window.scrollBy(0, top - bar);
    else if (bottom > window.innerHeight) window.scrollBy(0, bottom - window.innerHeight);
  }

  destroy() {
    window.removeEventListener("scroll", this.#onMove);
    window.removeEventListener("resize", this.#onResize);
  }

  #onResize = () => {
    this.#measure();
    this.#onMove();
  };

  /** Where the first line begins, in the window; the room above starts there. */
  #start() {
    return this.#above.body.getBoundingClientRect().top;
  }

  /** The heights differ between a table and a phone's cards. */
  #measure() {
    const style = getComputedStyle(this.#table);
    const pixels = (name) => Number.parseFloat(style.getPropertyValue(name));
    const heights = { run: pixels("--run-height"), group: pixels("--group-height") };
    this.#offsets = lineOffsets(this.#lines, heights);
  }
}

function onceAFrame(work) {
  let isAsked = false;
  return () => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => {
      isAsked = false;
      work();
    });
  };
}
