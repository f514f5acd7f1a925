/** The card before which somebody stands who is not in yet, and its form. */

import { joinByProvider, providerHref } from "../api.js";
import { el, setText } from "./dom.js";
import { field } from "./forms.js";
import { keepGoOn } from "./go_on.js";
import { logo } from "./icons.js";
import { themeButton } from "./shell.js";

/** Shows a card with a title in place of the page. */
export function showDoor(host, { title, testid, children }) {
  document.title = `${title} · collapsewatch`;
  host.replaceChildren(
    el(
      "div",
      { class: "door", data: { testid } },
      el(
        "div",
        { class: "card door-card" },
        el("p", { class: "door-brand" }, logo(), el("span", { text: "collapsewatch" }), themeButton()),
        el("h1", { text: title }),
        children,
      ),
    ),
  );
  host.querySelector("input:not([readonly])")?.focus({ preventScroll: true });
}

/**
 * @param {string} label
 * @param {Record<string, any>} props
 * @param {string} [hint]
 */
export function doorField(label, props, hint = "") {
  const control = el("input", {
    type: "text",
    autocapitalize: "none",
    spellcheck: "false",
    required: true,
    ...props,
  });
  return { control, ...field({ label, control, hint }) };
}

/**
 * A form with one button. `submit()` may throw what is then said by `words(error)`; one submission at a time.
 * @param {Record<string, any>} form
 */
export function doorForm({ fields, confirm, submit, words }) {
  const fault = el("p", { class: "field-error", role: "alert", data: { testid: "door-fault" } });
  const done = el("button", {
    class: "button button-primary",
    type: "submit",
    text: confirm,
    data: { testid: "door-submit" },
  });
  const form = el(
    "form",
    { class: "door-form", novalidate: true },
    fields.map((each) => each.root),
    fault,
    done,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (done.disabled) return;
    setText(fault, "");
    done.disabled = true;
    try {
      await submit();
    } catch (error) {
      setText(fault, words(error));
    } finally {
      done.disabled = false;
    }
  });
  return form;
}

/** The way by another service, where there is one; `hash` is where it goes on, `token` of a link to join by. */
export function providerLink(session, hash, { words = "Sign in with", token = null } = {}) {
  if (!session.provider) return null;
  return el("a", {
    class: "button door-provider",
    href: providerHref(),
    text: `${words} ${session.provider.name}`,
    data: { testid: "provider" },
    on: {
      click: (event) => {
        keepGoOn(hash);
        if (token !== null) goToProvider(event, token);
      },
    },
  });
}

/** Somebody who joins says by which link: without it only those with an account, or invited by name, come in. */
async function goToProvider(event, token) {
  event.preventDefault();
  try {
    window.location.assign(await joinByProvider(token));
  } catch (error) {
    // The plain way says what is wrong.
    console.warn("the link could not be taken along", error);
    window.location.assign(providerHref());
  }
}
