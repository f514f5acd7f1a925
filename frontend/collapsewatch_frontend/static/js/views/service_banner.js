/** Says on every page that the service itself needs someone: no worker, for one. */

import { splitLead } from "../alerts.js";
import { settingsHref } from "../routes.js";
import { bannerAlerts } from "../service.js";
import { prose } from "./components.js";
import { el, rerender } from "./dom.js";
import { icon } from "./icons.js";

/** `update(alerts)` shows the critical ones that are open; a screen that shows them itself makes it quiet. */
export function serviceBanner(host) {
  let shown = [];
  let isQuiet = false;
  const showOrHide = () => (host.hidden = isQuiet || shown.length === 0);
  return {
    setQuiet(quiet) {
      isQuiet = quiet;
      showOrHide();
    },
    update(alerts) {
      shown = bannerAlerts(alerts);
      showOrHide();
      rerender(host, JSON.stringify(shown.map(({ alert_id: id, message }) => [id, message])), () =>
        shown.map((alert) =>
          el(
            "p",
            { class: "banner severity-critical", data: { testid: "service-banner", rule: alert.rule } },
            icon("critical", 18),
            el(
              "span",
              { class: "banner-text" },
              el("strong", { text: alert.title }),
              prose(` ${splitLead(alert.message).lead}`),
            ),
            el("a", { href: settingsHref(), text: "Workers and queue", data: { focusKey: "banner" } }),
          ),
        ),
      );
    },
  };
}
