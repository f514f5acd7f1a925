/** What was sent to a channel, newest first. */

import { getDeliveries } from "../api.js";
import { answerWords, deliveryState, deliveryWords } from "../channels.js";
import { formatAge } from "../format.js";
import { channelMark, scrollRegion } from "./components.js";
import { button } from "./forms.js";
import { el, rerender, setText } from "./dom.js";

/** Read only while it is open: nobody needs the log of every channel at once. */
export function deliveryLog() {
  const rows = el("tbody");
  const table = scrollRegion("Delivery log");
  const words = el("p", { class: "faint" });
  const older = button("Show older", { small: true, on: { click: () => load(true) } });
  older.hidden = true;
  table.append(
    el(
      "table",
      { class: "data delivery-table" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          ["When", "Message", "Status", "Answer"].map((text) => el("th", { scope: "col", text })),
        ),
      ),
      rows,
    ),
  );
  const root = el(
    "details",
    { class: "alert-evidence", data: { testid: "delivery-log" } },
    el("summary", { text: "Delivery log" }),
    words,
    table,
    older,
  );
  let channelId = null;
  let shown = [];
  let before = null;
  const load = async (more = false) => {
    if (channelId === null || !root.open) return;
    try {
      const page = await getDeliveries(channelId, { before: more ? before : undefined });
      shown = more ? [...shown, ...page.deliveries] : page.deliveries;
      before = page.next_before;
      older.hidden = before === null;
      setText(words, shown.length === 0 ? "Nothing was sent yet." : "");
      table.hidden = shown.length === 0;
      const now = Date.now();
      rerender(rows, JSON.stringify(shown), () => shown.map((delivery) => deliveryRow(delivery, now)));
    } catch (error) {
      setText(words, `The log could not be loaded: ${error.message}.`);
    }
  };
  root.addEventListener("toggle", () => load());
  return {
    root,
    reload: () => load(),
    follow(channel, changed) {
      channelId = channel.channel_id;
      if (changed) load();
    },
  };
}

function deliveryRow(delivery, now) {
  return el(
    "tr",
    { data: { testid: "delivery" } },
    el("td", { class: "cell-when", title: delivery.created_at, text: formatAge(delivery.created_at, now) }),
    el("td", { text: deliveryWords(delivery) }),
    el("td", {}, channelMark(deliveryState(delivery))),
    el("td", { class: "cell-answer", text: answerWords(delivery, now) }),
  );
}
