/** Screen: an address that leads nowhere. */

import { runsHref } from "../routes.js";
import { el } from "./dom.js";

export function notFound(message, title = "Nothing here") {
  return el(
    "section",
    { class: "card empty-card", data: { testid: "not-found" } },
    el("h1", { text: title }),
    el("p", { text: message }),
    el("p", {}, el("a", { class: "button", href: runsHref(), text: "All runs" })),
  );
}
