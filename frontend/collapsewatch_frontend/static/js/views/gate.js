/** Lets somebody in, or shows how to come in: by signing in, or by a link to join. */

import { getSession } from "../api.js";
import { backoffSeconds } from "../refresh.js";
import { parseRoute } from "../routes.js";
import { notice } from "./components.js";
import { el } from "./dom.js";
import { takeGoOn } from "./go_on.js";
import { showJoin } from "./join.js";
import { showSignIn } from "./sign_in.js";

/**
 * The session of who is let in. It does not come back where somebody has to sign in first: the page is loaded
 * anew then, so that nothing of what was there before is left.
 */
export async function admit(host) {
  // A link may be pasted at any moment, also while the server is still asked.
  window.addEventListener("hashchange", () => {
    if (parseRoute(window.location.hash)?.screen === "join") window.location.reload();
  });
  takeGoOn();
  /** @type {any} */
  const route = parseRoute(window.location.hash);
  const token = route?.screen === "join" ? route.token : null;
  const refused = route?.screen === "sign-in" ? route.reason : null;
  // What opens the door must not stay where it is seen, stored and sent on; a reason is of no use later.
  if (token !== null || refused !== null) window.history.replaceState(null, "", "#/");
  const session = await askUntilAnswered(host);
  if (token !== null) showJoin(host, { token, session });
  else if (session.needs_login && session.name === null) showSignIn(host, { session, refused });
  else return session;
  setFrame(false);
  return new Promise(() => {});
}

/** Shows the way in instead of a page whose session has ended; whoever signs in goes on at the same address. */
export async function showEnded(host) {
  setFrame(false);
  host.replaceChildren();
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.remove();
  const session = await askUntilAnswered(host);
  if (session.name !== null || !session.needs_login) window.location.reload();
  else showSignIn(host, { session, ended: true });
}

async function askUntilAnswered(host) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await getSession();
    } catch (error) {
      host.replaceChildren(
        notice("bad", el("p", { text: `The server could not be asked: ${error.message}. Trying again.` })),
      );
      await new Promise((resolve) => setTimeout(resolve, backoffSeconds(attempt) * 1000));
    }
  }
}

/** The frame leads to nothing that somebody who is not signed in could see. */
function setFrame(isShown) {
  document.getElementById("topbar").hidden = !isShown;
  document.getElementById("banner").hidden = true;
  document.getElementById("toasts").replaceChildren();
}
