/** The items of the inbox: one card each, with what may be done to it, for pointer and keyboard. */

import { splitLead } from "../alerts.js";
import { formatAge, humanise, plural } from "../format.js";
import { alertStateInfo, isOwnRule, itemStepWords, standingWords } from "../inbox.js";
import { alertHref, runHref } from "../routes.js";
import { alertMark, prose, severityBadge } from "./components.js";
import { el, KeyedList, rerender, setText } from "./dom.js";
import { actionButtons, actionsOn, mayHandle, openHandleDialog } from "./handle_dialog.js";

/** `picked` is the set of thread ids that are ticked; `onPick` and `onDone` tell of news. */
export function inboxList({ picked, onPick, onDone }) {
  const root = el("ul", { class: "inbox", "aria-label": "Alerts, newest first", data: { testid: "inbox" } });
  const cards = new Map();
  const list = new KeyedList(root, {
    keyOf: (item) => item.thread_id,
    create: (item) => {
      const card = createCard(item, { picked, onPick, onDone });
      cards.set(item.thread_id, card);
      return { ...card, destroy: () => cards.delete(item.thread_id) };
    },
  });
  root.addEventListener("keydown", (event) => onKey(event, root, cards));
  return {
    root,
    update(items) {
      const at = [...root.children].findIndex((child) => child.contains(document.activeElement));
      list.update(items);
      // What was done may have taken the button, or the whole item, away from under the keyboard.
      if (at !== -1 && !root.contains(document.activeElement)) {
        const place = root.children[Math.min(at, root.children.length - 1)];
        (place?.querySelector(".inbox-title") ?? document.getElementById("main")).focus({
          preventScroll: true,
        });
      }
    },
    tick: () => cards.forEach((card) => card.tick()),
  };
}

const KEYS = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };
const SHORTCUTS = { a: "acknowledge", s: "snooze", r: "resolve", o: "reopen" };

/** Up and down from item to item, x ticks, letters open what may be done; nothing of it while text is typed. */
function onKey(event, root, cards) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const item = event.target.closest("li");
  if (item === null || item.parentElement !== root) return;
  const card = [...cards.values()].find((each) => each.root === item);
  if (Object.hasOwn(KEYS, event.key)) {
    const next = KEYS[event.key] === 1 ? item.nextElementSibling : item.previousElementSibling;
    next?.querySelector(".inbox-title").focus();
  } else if (event.key === "x") card.pick();
  else if (Object.hasOwn(SHORTCUTS, event.key)) card.act(SHORTCUTS[event.key]);
  else return;
  event.preventDefault();
}

function createCard(item, { picked, onPick, onDone }) {
  let shown = item;
  const parts = cardParts(item);
  const { root, box } = parts;
  const setPicked = () => {
    if (box.checked) picked.add(shown.thread_id);
    else picked.delete(shown.thread_id);
    onPick();
  };
  box.addEventListener("change", setPicked);
  return {
    root,
    tick: () => showTime(parts, shown),
    pick() {
      if (!mayHandle(shown)) return;
      box.checked = !box.checked;
      setPicked();
    },
    act(kind) {
      if (actionsOn(shown).includes(kind)) openHandleDialog({ kind, items: [shown], onDone });
    },
    update(latest) {
      shown = latest;
      box.checked = picked.has(latest.thread_id);
      showItem(parts, latest);
      showTime(parts, latest);
      const allowed = actionsOn(latest);
      parts.pick.hidden = !mayHandle(latest);
      rerender(parts.actions, allowed.join(" "), () =>
        actionButtons(
          allowed.map((kind) => ({ kind, items: () => [shown] })),
          { onDone },
        ),
      );
    },
  };
}

function cardParts(item) {
  const parts = {
    pick: el("label", { class: "pick" }),
    box: el("input", { type: "checkbox", data: { testid: "inbox-pick" } }),
    badge: el("span"),
    title: el("a", { class: "inbox-title", data: { testid: "inbox-title" } }),
    age: el("span", { class: "alert-when" }),
    meta: el("p", { class: "inbox-meta" }),
    lead: el("p", { class: "inbox-lead" }),
    standing: el("p", { class: "inbox-standing", data: { testid: "inbox-standing" } }),
    actions: el("div", { class: "inbox-actions" }),
  };
  const { pick, box, badge, title, age, meta, lead, standing, actions } = parts;
  pick.append(box);
  const head = el("div", { class: "alert-head" }, badge, title, age);
  const root = el(
    "li",
    { data: { testid: "inbox-item", alertId: item.alert_id } },
    el("span", {}, pick),
    el("div", { class: "inbox-main" }, head, meta, lead, standing),
    actions,
  );
  return { root, ...parts };
}

function showItem({ root, box, badge, title, meta, lead }, item) {
  const faded = item.state === "resolved" ? " alert-resolved" : "";
  root.className = `card inbox-item severity-${item.severity}${faded}`;
  root.dataset.alertId = item.alert_id;
  root.dataset.state = item.state;
  box.setAttribute("aria-label", `Select ${item.title}`);
  rerender(badge, item.severity, () => [severityBadge(item.severity)]);
  title.setAttribute("href", alertHref(item.alert_id));
  setText(title, item.title);
  rerender(meta, JSON.stringify(metaOf(item)), () => metaParts(item));
  rerender(lead, item.message, () => [prose(splitLead(item.message).lead)]);
}

/** What goes on while nothing else changes: ages, the end of a snooze. */
function showTime({ age, standing }, item) {
  const now = Date.now();
  setText(age, formatAge(item.opened_at, now));
  const note = item.last_action?.note ?? "";
  const words = standingWords(item, now);
  rerender(standing, `${item.state} ${words} ${note}`, () => [
    alertMark({ ...alertStateInfo(item.state), name: words }, item.state),
    note === "" ? null : el("span", { class: "faint", text: ` “${note}”` }),
  ]);
}

const metaOf = (item) => [
  item.run_id,
  item.run_name,
  item.project,
  item.scope,
  item.opened_step,
  item.rule,
  item.num_alerts,
];

function metaParts(item) {
  const about =
    item.run_id === null
      ? el("span", { text: "the service" })
      : el("a", {
          href: runHref(item.run_id, { scope: scopeOf(item.scope) }),
          data: { focusKey: "run" },
          text: item.run_name,
        });
  const graver =
    item.num_alerts > 1
      ? `grew graver ${item.num_alerts === 2 ? "once" : plural(item.num_alerts - 1, "time")}`
      : "";
  const words = [item.project ?? "", itemStepWords(item), humanise(item.scope), graver];
  return [
    about,
    words.filter((text) => text !== "").map((text) => el("span", { text })),
    // The title of an own rule's alert is its name already.
    el("span", { text: isOwnRule(item.rule) ? "own rule" : humanise(item.rule) }),
  ];
}

/** The run's page knows scored scopes only. */
const scopeOf = (scope) => (scope === "batch" || scope === "trainer" ? "" : scope);
