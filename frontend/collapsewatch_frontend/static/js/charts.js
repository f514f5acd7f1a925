/** Plotly: draws figures into elements, redraws them when theme or width changes. */

const CONFIG = {
  responsive: true,
  displaylogo: false,
  modeBarButtons: [["toImage", "resetScale2d"]],
  doubleClick: "reset",
};
const COMPACT_WIDTH = 460;

/** Safari has no idle callback. */
const whenIdle = (task) =>
  "requestIdleCallback" in window ? requestIdleCallback(task, { timeout: 1500 }) : setTimeout(task, 200);

let plotly = null;

/** The chart library, once its deferred script has run. */
function loadPlotly() {
  plotly ??= new Promise((resolve, reject) => {
    if (window.Plotly !== undefined) return resolve(window.Plotly);
    const script = document.getElementById("plotly");
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", () => reject(new Error("the chart library did not load")));
    // The script may have failed before anyone listened; its time is over once the page is complete.
    window.addEventListener("load", () => {
      if (window.Plotly === undefined) reject(new Error("the chart library did not load"));
    });
    return undefined;
  });
  return plotly;
}

/**
 * A figure's place on the page. `draw` takes a function from `{compact, width, height}` to a figure
 * and calls it again when the width changes; what is off screen waits for an idle moment.
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
  #listens = false;

  /** `onMark` gets the name of the sign or point that was clicked, where it has one. */
  constructor(host, { onError = () => {}, onMark = () => {} } = {}) {
    this.#host = host;
    this.#onError = onError;
    this.#onMark = onMark;
    const seen = new IntersectionObserver(
      ([entry]) => {
        this.#visible = entry.isIntersecting;
        if (this.#visible && this.#queued) this.#paint();
      },
      { rootMargin: "300px" },
    );
    let width = 0;
    const sized = new ResizeObserver(([entry]) => {
      const before = width;
      width = entry.contentRect.width;
      if (before !== 0 && width !== before && this.#build !== null) this.redraw();
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
    if (this.#host.classList.contains("js-plotly-plot")) window.Plotly?.purge(this.#host);
    this.#listens = false;
  }

  #listen() {
    if (this.#listens) return;
    this.#listens = true;
    const tell = (name) => {
      if (name !== undefined && name !== "") this.#onMark(name);
    };
    this.#host.on("plotly_clickannotation", ({ annotation }) => tell(annotation.name));
    this.#host.on("plotly_click", ({ points }) => tell(points[0]?.id));
  }

  destroy() {
    this.#gone = true;
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
        const figure = this.#build({ compact, width, height });
        // Touch screens show the buttons all the time, and a narrow figure has no room for them.
        const config = { ...CONFIG, displayModeBar: compact ? false : "hover" };
        await library.react(this.#host, figure.data, figure.layout, config);
        this.#listen();
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
