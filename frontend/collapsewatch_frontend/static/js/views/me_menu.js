/** Who is signed in: a menu at the end of the top bar. */

import { changePassword, getSession, signOut } from "../api.js";
import { whoAmI } from "../access.js";
import { lengthWords, passwordProblem, refusalWords, standingLines } from "../accounts.js";
import { el, rerender } from "./dom.js";
import { field, openDialog } from "./forms.js";
import { icon } from "./icons.js";
import { tellOthers } from "./session_news.js";
import { showNote } from "./toasts.js";

/** Builds the menu; nothing where nobody signs in. */
export function meMenu(session) {
  if (!session.needs_login || session.name === null) return null;
  const lines = el("ul", { class: "me-roles", data: { testid: "me-roles" } });
  const summary = el(
    "summary",
    { class: "me-button", "aria-label": `Signed in as ${session.name}`, data: { testid: "me" } },
    icon("person", 18),
    el("span", { class: "me-name", text: session.name }),
  );
  const root = el(
    "details",
    { class: "me" },
    summary,
    el(
      "div",
      { class: "menu me-menu" },
      el("p", { class: "me-who", text: session.name, data: { testid: "me-name" } }),
      lines,
      item("edit", "Change password", "change-password", () => openPasswordDialog()),
      item("next", "Sign out", "sign-out", leave),
    ),
  );
  function item(name, text, testid, run) {
    const click = () => {
      root.open = false;
      run();
    };
    return el(
      "button",
      { class: "menu-item", type: "button", data: { testid }, on: { click } },
      icon(name, 14),
      el("span", { text }),
    );
  }
  root.addEventListener("toggle", () => root.open && showLines(lines));
  closeOutside(root, summary);
  return root;
}

function showLines(lines) {
  const standing = standingLines(whoAmI());
  rerender(lines, JSON.stringify(standing), () => standing.map((text) => el("li", { text })));
}

function closeOutside(root, summary) {
  const onOutside = (event) => {
    if (!root.contains(event.target)) root.open = false;
  };
  root.addEventListener("toggle", () => {
    if (root.open) document.addEventListener("pointerdown", onOutside);
    else document.removeEventListener("pointerdown", onOutside);
  });
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !root.open) return;
    root.open = false;
    summary.focus();
  });
}

async function leave() {
  try {
    await signOut();
  } catch (error) {
    showNote(`You are still signed in: ${error.message}.`);
    return;
  }
  tellOthers();
  window.history.replaceState(null, "", "#/");
  window.location.reload();
}

async function openPasswordDialog() {
  const session = await getSession().catch(() => null);
  const input = (autocomplete, testid) =>
    el("input", { type: "password", autocomplete, maxlength: 200, data: { testid } });
  const [old, fresh] = [input("current-password", "old-password"), input("new-password", "new-password")];
  const oldField = field({ label: "Password until now", control: old, wide: true });
  const freshField = field({ label: "New password", control: fresh, wide: true, hint: lengthWords("") });
  fresh.addEventListener("input", () => freshField.setHint(lengthWords(fresh.value)));
  openDialog({
    title: "Change password",
    confirm: "Change",
    testid: "password-dialog",
    focus: old,
    children: [
      el("p", { class: "faint", text: "All other browsers in which you are signed in are signed out." }),
      hiddenName(session?.name ?? ""),
      el("div", { class: "fields" }, oldField.root, freshField.root),
    ],
    submit: async () => {
      oldField.setError(old.value === "" ? "Say the password that you have now." : "");
      const problem = passwordProblem(fresh.value, session?.name ?? "");
      freshField.setError(problem);
      if (old.value === "" || problem !== "") return false;
      try {
        await changePassword(old.value, fresh.value);
      } catch (error) {
        if (error.code === "wrong_credentials") oldField.setError("This is not your password.");
        else freshField.setError(refusalWords(error));
        return false;
      }
      showNote("The password is changed.");
      return true;
    },
  });
}

/** For programs that keep passwords: whose this one is. */
function hiddenName(name) {
  const input = el("input", {
    type: "text",
    autocomplete: "username",
    class: "visually-hidden",
    tabindex: "-1",
    "aria-hidden": "true",
    readonly: true,
  });
  input.value = name;
  return input;
}
