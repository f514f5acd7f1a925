/** The parts of the settings, each for those who may use it. */

import { isOperator, may, needsLogin } from "../access.js";
import {
  auditPageHref,
  channelsHref,
  keysHref,
  peopleHref,
  retentionHref,
  settingsHref,
  sharesHref,
} from "../routes.js";
import { el } from "./dom.js";

const TABS = [
  { id: "service", href: settingsHref(), text: "Workers and queue", isFor: () => true },
  // Whoever has no channel to look after chooses there what this browser tells.
  { id: "channels", href: channelsHref(), text: "Alert channels", isFor: () => true },
  { id: "shares", href: sharesHref(), text: "Shared links", isFor: () => may("run.share") },
  {
    id: "people",
    href: peopleHref(),
    text: "People",
    isFor: () => needsLogin() && (isOperator() || may("member.edit")),
  },
  { id: "keys", href: keysHref(), text: "Keys", isFor: () => may("key.edit") },
  { id: "retention", href: retentionHref(), text: "What is kept", isFor: () => may("retention.edit") },
  { id: "audit", href: auditPageHref(), text: "Audit", isFor: () => may("audit.read") },
];

/** The tabs above every part; the one that is shown stands there whoever looks. */
export function settingsTabs(current) {
  return el(
    "nav",
    { class: "tabs", "aria-label": "Settings" },
    TABS.filter(({ id, isFor }) => id === current || isFor()).map(({ id, href, text }) =>
      el(
        "a",
        {
          class: "tab",
          href,
          "aria-current": id === current ? "page" : null,
          data: { testid: `settings-${id}` },
        },
        el("span", { text }),
      ),
    ),
  );
}
