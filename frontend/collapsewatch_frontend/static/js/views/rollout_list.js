/** The rollouts of the step, or those that a search found. */

import { formatStep, plural } from "../format.js";
import { rolloutFacts, searchWords } from "../rollouts.js";
import { notice } from "./components.js";
import { el, KeyedList, rerender, setAttribute, setText } from "./dom.js";

export function rolloutList({ goTo, hrefOf, more, searchOn }) {
  const said = el("p", { class: "card-note", role: "status", data: { testid: "rollout-list-said" } });
  const items = el("ul", { class: "rollout-items", data: { testid: "rollout-list" } });
  const problem = el("div");
  const further = el("button", {
    class: "button button-small",
    type: "button",
    hidden: true,
    data: { testid: "rollout-more" },
  });
  const everything = el("button", {
    class: "button button-small",
    type: "button",
    hidden: true,
    on: { click: () => goTo({ group: "", index: null }) },
    text: "Show all prompts",
  });
  const scroll = el(
    "div",
    { class: "rollout-scroll", tabindex: "0", role: "region", "aria-label": "Rollouts" },
    items,
    further,
    everything,
  );
  const root = el(
    "section",
    { class: "card rollout-list", "aria-label": "Rollouts to choose from" },
    said,
    problem,
    scroll,
  );
  const shown = new KeyedList(items, {
    keyOf: (item) => `${item.step ?? "row"}:${item.index}`,
    create: createItem,
  });
  let isSearching = false;
  let current = null;
  further.addEventListener("click", () => (isSearching ? searchOn() : more()));
  return {
    root,
    update({ choice, data }) {
      isSearching = choice.text.trim() !== "";
      const { search, list } = data;
      const found = isSearching ? search.hits : (list.value?.rollouts ?? []);
      const isShown = (item) => item.index === choice.index && (item.step ?? choice.step) === choice.step;
      shown.update(
        found.map((item) => ({
          ...item,
          href: hrefOf(
            isSearching ? { step: item.step, index: item.index, group: "" } : { index: item.index },
          ),
          isShown: isShown(item),
        })),
      );
      setText(said, isSearching ? searchSaid(search) : listSaid(list));
      problem.replaceChildren(...(isSearching && search.error !== null ? [failure(search.error)] : []));
      further.hidden = isSearching ? search.next === null || search.isRunning : hasAll(list.value);
      setText(further, isSearching ? "Search older steps" : "Show more");
      everything.hidden = isSearching || choice.group === "" || list.value?.num_found !== 0;
      // The list follows the keyboard, but does not run away from somebody who scrolls it.
      const key = `${choice.step}:${choice.index}`;
      if (key !== current && items.querySelector("[aria-current]") !== null) {
        current = key;
        keepInView(scroll, items.querySelector("[aria-current]"));
      }
    },
  };
}

const hasAll = (list) => list === null || list.rollouts.length >= list.num_found;

const searchSaid = (search) =>
  searchWords({
    numHits: search.hits.length,
    numRollouts: search.numRollouts,
    // A step that was looked through in part counts too.
    numSteps: search.numSteps + ((search.next?.index ?? 0) > 0 ? 1 : 0),
    unreadable: search.unreadable,
    removed: search.removed,
    isDone: search.next === null,
    isRunning: search.isRunning,
  });

function listSaid({ value, isLoading }) {
  if (value === null) return isLoading ? "Reading the batch…" : "";
  const missing = value.reason === null ? "" : ` ${value.reason[0].toUpperCase()}${value.reason.slice(1)}.`;
  if (value.num_found === 0 && missing === "") return "No rollout of this prompt at this step.";
  const part = value.num_found < value.num_rollouts ? `${formatStep(value.num_found)} of ` : "";
  return `${part}${plural(value.num_rollouts, "rollout")}.${missing}`;
}

const failure = (error) => notice("bad", el("p", { text: `The search ended: ${error.message}.` }));

function createItem() {
  const name = el("span", { class: "rollout-name" });
  const facts = el("span", { class: "faint" });
  const text = el("span", { class: "rollout-excerpt" });
  const link = el(
    "a",
    { class: "rollout-link", data: { testid: "rollout-item" } },
    el("span", { class: "rollout-line" }, name, facts),
    text,
  );
  const root = el("li", {}, link);
  return {
    root,
    update(next) {
      setAttribute(link, "href", next.href);
      setAttribute(link, "aria-current", next.isShown ? "true" : null);
      const at = next.step === undefined ? "" : `Step ${formatStep(next.step)} · `;
      setText(name, `${at}#${next.index} · ${next.group_id}`);
      setText(facts, factsOf(next));
      rerender(text, JSON.stringify([next.excerpt, next.before, next.match, next.after]), () =>
        excerptOf(next),
      );
    },
  };
}

function excerptOf({ excerpt, before, match, after }) {
  if (match === undefined) return [excerpt === "" ? "(token ids only)" : excerpt];
  return [before, el("mark", { class: "found", text: match }), after];
}

function factsOf(item) {
  if (item.match === undefined) return rolloutFacts(item);
  const times = item.num_matches > 1 ? ` · ${formatStep(item.num_matches)} times` : "";
  const turn = item.turn > 0 ? ` · turn ${item.turn + 1}` : "";
  return `${item.place}${turn}${times} · ${rolloutFacts({ ...item, num_turns: 1 })}`;
}

/** Scrolls the box alone; `scrollIntoView` would move the page too. */
function keepInView(box, node) {
  const [outer, inner] = [box.getBoundingClientRect(), node.getBoundingClientRect()];
  if (inner.top < outer.top) box.scrollTop -= outer.top - inner.top;
  else if (inner.bottom > outer.bottom) box.scrollTop += inner.bottom - outer.bottom;
}
