/** The chart library: fetched with the first page of charts, run when what is to be drawn has been asked for. */

const address = () => document.querySelector('meta[name="plotly"]')?.getAttribute("content") ?? "";

let isFetched = false;
/** @type {Promise<any> | null} */
let library = null;

/**
 * Has the browser fetch the library. To run its 4.8 MB stops everything else for half a second, so that waits
 * until the requests for what is drawn are on their way, or the first figure is there.
 */
export function fetchPlotly() {
  if (isFetched || library !== null) return;
  isFetched = true;
  document.head.append(link("preload"));
}

/** Runs it once the requests that were just made are on their way. */
export function runPlotlySoon() {
  if (library === null) setTimeout(() => loadPlotly().catch(() => {}));
}

/** Has it fetched for the next page, when nothing else is left to do; `whenIdle` calls then. */
export function fetchPlotlyLater(whenIdle) {
  whenIdle(() => {
    if (!isFetched && library === null) document.head.append(link("prefetch"));
  });
}

/** The library, which is run once, and tried again after it did not come. */
export function loadPlotly() {
  library ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = address();
    script.addEventListener("load", () => resolve(window.Plotly));
    script.addEventListener("error", () => {
      script.remove();
      library = null;
      reject(new Error("the chart library did not load"));
    });
    document.head.append(script);
  });
  return library;
}

function link(rel) {
  const one = document.createElement("link");
  one.rel = rel;
  one.as = "script";
  one.href = address();
  return one;
}
