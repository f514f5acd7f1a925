/** The screen of a link to join by: what it gives, and how to take it. */

import { acceptLink, getSession, join, lookAtLink } from "../api.js";
import {
  NAME_RULE,
  inviteWords,
  lengthWords,
  nameProblem,
  passwordProblem,
  refusalWords,
  sentence,
} from "../accounts.js";
import { runsHref } from "../routes.js";
import { el } from "./dom.js";
import { doorField, doorForm, providerLink, showDoor } from "./door.js";
import { button } from "./forms.js";
import { tellOthers } from "./session_news.js";
import { showSignIn } from "./sign_in.js";

const TITLE = "You are invited";
const ENDED =
  "It was used already, withdrawn, or is too old: a link is good once, for some days. Ask whoever sent it for another.";

/** Shows what the link is for; who comes in by it finds the page loaded anew. */
export async function showJoin(host, { token, session }) {
  if (!session.needs_login) {
    showDoor(host, {
      title: "No need to sign in",
      testid: "join-needless",
      children: [el("p", { text: "This server asks nobody to sign in." }), goOnLink("Go to the runs")],
    });
    return;
  }
  let link;
  try {
    link = await lookAtLink(token);
  } catch (error) {
    showBroken(host, { error, session });
    return;
  }
  if (session.name !== null && link.purpose === "join") showAccept(host, { token, link, session });
  else showJoinForm(host, { token, link, session });
}

function showBroken(host, { error, session }) {
  const isOver = error.status === 410 || error.status === 422;
  showDoor(host, {
    title: isOver ? "This link is no longer good" : "The link could not be looked at",
    testid: "join-ended",
    children: [
      el("p", { role: "alert", text: isOver ? ENDED : refusalWords(error) }),
      goOnLink(session.name === null ? "Sign in" : "Go to the runs"),
    ],
  });
}

/** A step in this very page would not ask anew who is there. */
const goOnLink = (text) =>
  button(text, { primary: true, data: { testid: "join-go-on" }, on: { click: () => enter() } });

function enter() {
  window.history.replaceState(null, "", runsHref());
  window.location.reload();
}

function showAccept(host, { token, link, session }) {
  const form = doorForm({
    fields: [],
    confirm: "Accept",
    words: (error) => (error.status === 410 ? sentence(error.message) : refusalWords(error)),
    submit: async () => {
      await acceptLink(token);
      tellOthers();
      enter();
    },
  });
  showDoor(host, {
    title: TITLE,
    testid: "join-accept",
    children: [
      el("p", { class: "door-lead", text: inviteWords(link) }),
      el("p", { class: "faint", text: `You are signed in as ${session.name}.` }),
      form,
      button("Not now", { on: { click: () => enter() } }),
    ],
  });
}

function showJoinForm(host, { token, link, session }) {
  const isReset = link.purpose === "password";
  const name = nameField(isReset ? link.label : null);
  const password = doorField(
    isReset ? "New password" : "Password",
    {
      type: "password",
      name: "password",
      autocomplete: "new-password",
      maxlength: 200,
      data: { testid: "join-password" },
    },
    lengthWords(""),
  );
  password.control.addEventListener("input", () => password.setHint(lengthWords(password.control.value)));
  const form = doorForm({
    fields: [name, password],
    confirm: isReset ? "Set the password" : "Join",
    words: (error) => (error.status === 410 ? `This link is no longer good. ${ENDED}` : refusalWords(error)),
    submit: async () => {
      if (!checked(name, password, isReset)) return;
      await join(token, name.control.value.trim(), password.control.value);
      tellOthers();
      enter();
    },
  });
  showDoor(host, {
    title: isReset ? "Set a new password" : TITLE,
    testid: "join",
    children: [
      el("p", { class: "door-lead", text: inviteWords(link) }),
      form,
      isReset ? null : otherWays(host, { token, session }),
    ],
  });
}

/** Of an account that is there the name is given; it stands in the form for programs that keep passwords. */
function nameField(given) {
  const field = doorField(
    "Name",
    {
      name: "username",
      autocomplete: "username",
      maxlength: 100,
      readonly: given !== null,
      data: { testid: "join-name" },
    },
    given === null ? `What you sign in with. ${NAME_RULE}` : "",
  );
  if (given !== null) field.control.value = given;
  return field;
}

function checked(name, password, isReset) {
  const given = name.control.value.trim();
  const problems = [isReset ? "" : nameProblem(given), passwordProblem(password.control.value, given)];
  [name, password].forEach((each, i) => each.setError(problems[i]));
  [name, password].find((_, i) => problems[i] !== "")?.control.focus();
  return problems.every((problem) => problem === "");
}

/** Who has an account already takes the link with that one. */
function otherWays(host, { token, session }) {
  const again = async () => showJoin(host, { token, session: await getSession() });
  return el(
    "div",
    { class: "door-others" },
    providerLink(session, `#/join/${token}`, { words: "Join with", token }),
    button("I have an account already", {
      data: { testid: "join-has-account" },
      on: { click: () => showSignIn(host, { session, onIn: again }) },
    }),
  );
}
