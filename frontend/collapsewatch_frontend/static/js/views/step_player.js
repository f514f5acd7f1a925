/** The way of a run step by step: a slider over its scored steps, play and pause. */

import { formatStep } from "../format.js";
import { regimeInfo } from "../regimes.js";
import { el, setText } from "./dom.js";
import { icon } from "./icons.js";

const FRAME_MS = 120;
const MOST_FRAMES = 160;

/** `onStep` gets the step that is looked at, null for the newest, which then moves on with the run. */
export function stepPlayer({ onStep }) {
  let points = [];
  let selected = null;
  let timer = null;
  const play = el("button", {
    class: "button player-button",
    type: "button",
    data: { testid: "player-play" },
  });
  const slider = el("input", {
    type: "range",
    class: "player-slider",
    min: "0",
    step: "1",
    "aria-label": "Step",
    data: { testid: "player-slider" },
    on: {
      input: () => {
        stop();
        choose(Number(slider.value));
      },
    },
  });
  const told = el("output", { class: "player-step numeric", data: { testid: "player-step" } });
  const newest = el(
    "button",
    {
      class: "button button-small",
      type: "button",
      title: "Follow the newest step",
      data: { testid: "player-newest" },
      on: {
        click: () => {
          stop();
          onStep(null);
        },
      },
    },
    icon("newest", 14),
    el("span", { text: "Newest" }),
  );
  const root = el(
    "div",
    { class: "player", role: "group", "aria-label": "Step by step" },
    play,
    slider,
    told,
    newest,
  );

  const place = () => {
    if (selected === null) return points.length - 1;
    const after = points.findIndex((point) => point.step > selected);
    return after === -1 ? points.length - 1 : Math.max(0, after - 1);
  };
  function choose(index) {
    onStep(index >= points.length - 1 ? null : points[index].step);
  }
  function advance() {
    const stride = Math.max(1, Math.ceil(points.length / MOST_FRAMES));
    const next = place() + stride;
    if (next >= points.length - 1) stop();
    choose(next);
  }
  function stop() {
    if (timer === null) return;
    clearInterval(timer);
    timer = null;
    showButton();
  }
  function start() {
    if (place() >= points.length - 1) choose(0);
    timer = setInterval(advance, FRAME_MS);
    showButton();
  }
  function showButton() {
    const name = timer === null ? "play" : "pause";
    play.setAttribute("aria-label", timer === null ? "Play the steps" : "Pause");
    play.title = timer === null ? "Play the steps" : "Pause";
    play.replaceChildren(icon(name));
  }
  play.addEventListener("click", () => (timer === null ? start() : stop()));
  showButton();
  return {
    root,
    /** `scored`: the points of the trajectory; `step`: the chosen one, null for the newest. */
    update(scored, step) {
      points = scored;
      selected = step;
      root.hidden = points.length < 2;
      if (root.hidden) return stop();
      const at = place();
      slider.max = String(points.length - 1);
      slider.value = String(at);
      const point = points[at];
      const words = `step ${formatStep(point.step)}`;
      slider.setAttribute("aria-valuetext", `${words}, ${regimeInfo(point.regime).name}`);
      setText(told, `${words} of ${formatStep(points[points.length - 1].step)}`);
      newest.disabled = selected === null;
      return undefined;
    },
    destroy: stop,
  };
}
