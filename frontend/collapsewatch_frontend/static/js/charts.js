/** Plotly: draws figures into elements, redraws them when theme, size or view changes, makes pictures. */

import { asLocal, fromLocal } from "./clock.js";
import { shownFigure } from "./figures/shown.js";
import { fetchPlotly, loadPlotly } from "./plotly_library.js";

/** What the buttons of the library did is done by the card's own menu, which the keyboard reaches. */
const CONFIG = { responsive: true, displaylogo: false, displayModeBar: false };
const COMPACT_WIDTH = 460;
const TITLE_PX = 30;

/** A thin line over a figure, which is moved without drawing the figure again. */
function upright(className) {
  const line = document.createElement("div");
  line.className = `upright ${className}`;
  line.hidden = true;
  return line;
}

/** Safari has no idle callback. */
const whenIdle = (task) =>
  "requestIdleCallback" in window ? requestIdleCallback(task, { timeout: 1500 }) : setTimeout(task, 200);

/**
 * A figure's place on the page. `draw` takes a function from `{compact, width, height}` to a figure
 * and calls it again when the size changes; what is off screen waits for an idle moment.
 * With a `view` (chart_view.js) a figure over steps follows it, and tells it of zooms and of the pointer.
 */
export class Chart {
  #host;
  #build = null;
  #queued = false;
  #drawing = false;
  #visible = false;
  #gone = false;
  #watchers = [];
  #onError;
  #onMark;
  #onStep;
  #onDrawn;
  #listens = false;
  #view;
  #stopView = () => {};
  /** What was drawn last, as the page shows it. */
  #figure = null;
  #cursor = upright("cursor-line");
  #selected = upright("selected-line");

  /**
   * `onMark` gets the name of the sign or point that was clicked, where it has one; `onStep` the step of a
   * click elsewhere in a figure over steps; `onDrawn` the figure as it was drawn.
   * @param {any} host
   * @param {Record<string, any>} [options]
   */
  constructor(
    host,
    { view = null, onError = () => {}, onMark = () => {}, onStep = () => {}, onDrawn = () => {} } = {},
  ) {
    this.#host = host;
    this.#view = view;
    this.#onError = onError;
    this.#onMark = onMark;
    this.#onStep = onStep;
    this.#onDrawn = onDrawn;
    if (view !== null) {
      host.after(this.#selected, this.#cursor);
      this.#stopView = view.subscribe((change) => this.#follow(change));
    }
    fetchPlotly();
    const seen = new IntersectionObserver(
      ([entry]) => {
        this.#visible = entry.isIntersecting;
        if (this.#visible && this.#queued) this.#paint();
      },
      { rootMargin: "300px" },
    );
    let size = "";
    const sized = new ResizeObserver(([{ contentRect }]) => {
      const before = size;
      size = contentRect.width === 0 ? "" : `${contentRect.width} ${contentRect.height}`;
      if (before !== "" && size !== "" && size !== before) this.redraw();
    });
    seen.observe(host);
    sized.observe(host);
    this.#watchers = [seen, sized];
  }

  draw(build) {
    this.#build = build;
    this.redraw();
  }

  redraw() {
    if (this.#build === null || this.#gone || this.#queued) return;
    this.#queued = true;
    if (this.#visible) requestAnimationFrame(() => this.#paint());
    else whenIdle(() => this.#paint());
  }

  clear() {
    this.#build = null;
    this.#figure = null;
    for (const line of [this.#cursor, this.#selected]) line.hidden = true;
    if (this.#host.classList.contains("js-plotly-plot")) window.Plotly?.purge(this.#host);
    this.#listens = false;
  }

  /** The figure as it is drawn, for its numbers; null when there is none. */
  get figure() {
    return this.#figure;
  }

  /** A picture of what is seen, on the ground of the page: a PNG at twice the size, or an SVG. */
  async picture({ format, title, ground, textColour }) {
    const library = await loadPlotly();
    const { clientWidth: width, clientHeight: height } = this.#host;
    const margin = { ...this.#figure.layout.margin };
    margin.t = (margin.t ?? 12) + TITLE_PX;
    const named = this.#figure.data.filter((trace) => trace.meta?.column !== undefined);
    const layout = {
      ...this.#figure.layout,
      margin,
      paper_bgcolor: ground,
      title: {
        text: title,
        x: 0.02,
        xanchor: "left",
        y: 0.97,
        yanchor: "top",
        font: { size: 14, color: textColour },
      },
      showlegend: named.length > 1,
      legend: { orientation: "h", y: -0.18, font: { size: 11 } },
    };
    const known = new Set(named);
    const data = this.#figure.data.map((trace) => ({ ...trace, showlegend: known.has(trace) }));
    const options = { format, width, height: height + TITLE_PX, scale: format === "png" ? 2 : 1 };
    const body = await library.toImage({ data, layout }, { ...options, imageDataOnly: true });
    if (format === "svg") return new Blob([body], { type: "image/svg+xml" });
    const bytes = Uint8Array.from(atob(body), (letter) => letter.charCodeAt(0));
    return new Blob([bytes], { type: "image/png" });
  }

  #follow(change) {
    if (change === "cursor" || change === "selected") this.#place();
    else this.redraw();
  }

  /** Puts the line under the pointer and that of the chosen step where they belong, without drawing again. */
  #place() {
    const { cursor, selected } = this.#view;
    const isOwn = cursor !== null && cursor.source === this;
    this.#placeLine(this.#cursor, cursor === null || isOwn ? null : cursor.step);
    this.#placeLine(this.#selected, selected);
  }

  #placeLine(line, step) {
    const axis = this.#host._fullLayout?.xaxis;
    line.hidden = true;
    if (step === null || axis === undefined || this.#figure?.overSteps !== true) return;
    const pixel = axis.d2p(this.#view.onTime ? asLocal(this.#view.clock.timeOf(step)) : step);
    if (!(pixel >= 0 && pixel <= axis._length)) return;
    const { t: top, h: height } = this.#host._fullLayout._size;
    line.style.transform = `translateX(${axis._offset + pixel}px)`;
    line.style.top = `${top}px`;
    line.style.height = `${height}px`;
    line.hidden = false;
  }

  /** A place on the horizontal axis as a step, with fractions. */
  #stepAt(value) {
    return this.#view.onTime ? this.#view.clock.stepOf(fromLocal(value)) : Number(value);
  }

  #listen() {
    if (this.#listens) return;
    this.#listens = true;
    const tell = (name) => {
      if (name === undefined || name === "") return false;
      this.#onMark(name);
      return true;
    };
    const host = this.#host;
    host.on("plotly_clickannotation", ({ annotation }) => tell(annotation.name));
    host.on("plotly_click", ({ points }) => {
      const told = tell(points[0]?.id);
      if (!told && this.#isLinked) this.#onStep(Math.round(this.#stepAt(points[0].x)));
    });
    if (this.#view === null) return;
    host.on("plotly_hover", ({ points }) => {
      if (this.#isLinked) this.#view.hover(this.#stepAt(points[0].x), this);
    });
    host.on("plotly_unhover", () => this.#view.hover(null, this));
    host.on("plotly_doubleclick", () => this.#view.zoom(null));
    host.on("plotly_relayout", (change) => {
      const [low, high] = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
      if (this.#isLinked && low !== undefined) this.#view.zoom([this.#stepAt(low), this.#stepAt(high)]);
    });
  }

  get #isLinked() {
    return this.#view !== null && this.#figure?.overSteps === true;
  }

  destroy() {
    this.#gone = true;
    this.#stopView();
    for (const watcher of this.#watchers) watcher.disconnect();
    this.clear();
  }

  async #paint() {
    if (!this.#queued || this.#drawing || this.#gone) return;
    this.#drawing = true;
    try {
      const library = await loadPlotly();
      this.#queued = false;
      if (this.#build !== null && !this.#gone && this.#host.isConnected) {
        const { clientWidth: width, clientHeight: height } = this.#host;
        const compact = width < COMPACT_WIDTH;
        const built = this.#build({ compact, width, height });
        const figure = this.#view === null ? built : shownFigure(built, this.#view, { compact });
        this.#figure = figure;
        const config = { ...CONFIG, doubleClick: this.#isLinked ? false : "reset" };
        await library.react(this.#host, figure.data, figure.layout, config);
        this.#listen();
        if (this.#view !== null) this.#place();
        this.#onDrawn(figure);
      }
    } catch (error) {
      this.#queued = false;
      this.#onError(error);
    } finally {
      this.#drawing = false;
      if (this.#queued) requestAnimationFrame(() => this.#paint());
    }
  }
}
