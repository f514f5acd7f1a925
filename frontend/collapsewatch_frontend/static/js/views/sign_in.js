/** The screen by which somebody signs in. */

import { signIn } from "../api.js";
import { providerWords, refusalWords } from "../accounts.js";
import { el } from "./dom.js";
import { doorField, doorForm, providerLink, showDoor } from "./door.js";
import { tellOthers } from "./session_news.js";

const LEAD = "This service is for its team. Sign in to see your projects.";
const ENDED = "Your session has ended. Sign in again and you go on where you were.";
const HELP = "No account, or the password forgotten? Whoever operates the service sends you a link.";

/**
 * Shows the screen. Once somebody is in, `onIn()` is called; without it the page is loaded anew at its address.
 * @param {HTMLElement} host
 * @param {Record<string, any>} how
 */
export function showSignIn(
  host,
  { session, ended = false, refused = null, onIn = () => window.location.reload() },
) {
  const name = doorField("Name", {
    name: "username",
    autocomplete: "username",
    maxlength: 100,
    data: { testid: "sign-in-name" },
  });
  const password = doorField("Password", {
    type: "password",
    name: "password",
    autocomplete: "current-password",
    maxlength: 1000,
    data: { testid: "sign-in-password" },
  });
  const form = doorForm({
    fields: [name, password],
    confirm: "Sign in",
    words: refusalWords,
    submit: async () => {
      const given = name.control.value.trim();
      name.setError(given === "" ? "Say your name." : "");
      password.setError(password.control.value === "" ? "Say your password." : "");
      if (given === "" || password.control.value === "") {
        (given === "" ? name : password).control.focus();
        return;
      }
      try {
        await signIn(given, password.control.value);
      } catch (error) {
        // What was typed blind is typed again.
        password.control.value = "";
        password.control.focus();
        throw error;
      }
      tellOthers();
      await onIn();
    },
  });
  showDoor(host, {
    title: "Sign in",
    testid: "sign-in",
    children: [
      el("p", { class: "door-lead", role: ended ? "status" : null, text: ended ? ENDED : LEAD }),
      refused === null || !session.provider
        ? null
        : el("p", {
            class: "field-error",
            role: "alert",
            text: providerWords(refused, session.provider.name),
            data: { testid: "provider-fault" },
          }),
      providerLink(session, window.location.hash),
      form,
      el("p", { class: "faint", text: HELP }),
    ],
  });
}
