/** Screen: an address that leads nowhere. */

import { runsHref } from "../routes.js";
import { el } from "./dom.js";

export function notFound(message) {
  return el(
    "section",
    { class: "card empty-card", data: { testid: "not-found" } },
    el("h1", { text: "Nothing here" }),
    el("p", { text: message }),
    el("p", {}, el("a", { class: "button", href: runsHref(), text: "All runs" })),
  );
}
