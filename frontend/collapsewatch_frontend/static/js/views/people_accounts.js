/** All accounts of the service, for who operates it. */

import { changeAccount, resetAccount } from "../api.js";
import { whoAmI } from "../access.js";
import { accountWords, sentence } from "../accounts.js";
import { el, setText } from "./dom.js";
import { button, confirmLoss } from "./forms.js";
import { showLink } from "./people_invitations.js";
import { cardTable } from "./settings_table.js";

export function accountsPart({ reload }) {
  const said = el("p", { class: "inbox-said", role: "status", data: { testid: "accounts-said" } });
  const act = async (action) => {
    setText(said, "");
    try {
      await action();
    } catch (error) {
      setText(said, sentence(error.message));
    }
    reload();
  };
  const table = cardTable({
    caption: "Accounts",
    testid: "accounts",
    keyOf: (account) => account.id,
    columns: [
      { name: "Name", cell: nameCell },
      {
        name: "May",
        cell: ({ is_operator: is }) => [
          String(is),
          () => [el("span", { text: is ? "Operator" : "By project" })],
        ],
      },
      { name: "", wide: true, cell: (account) => [signature(account), () => [buttonsOf(account, act)]] },
    ],
  });
  return {
    root: el("div", {}, el("h2", { class: "section-title", text: "Accounts" }), said, table.root),
    update: (accounts) => table.update(accounts),
  };
}

const signature = (account) => JSON.stringify([account.is_operator, account.closed_at, account.name]);
const isOwn = (account) => account.name === whoAmI().name;

function nameCell(account) {
  const words = accountWords(account, Date.now());
  const name = isOwn(account) ? `${account.name} (you)` : account.name;
  return [
    `${name} ${words}`,
    () => [el("strong", { class: "card-title", text: name }), el("span", { class: "faint", text: words })],
  ];
}

function buttonsOf(account, act) {
  const small = (text, testid, click) =>
    button(text, {
      small: true,
      "aria-label": `${text}: ${account.name}`,
      data: { testid, focusKey: testid },
      on: { click },
    });
  if (account.closed_at !== null) {
    return el(
      "div",
      { class: "row-buttons" },
      small("Open again", "open-account", () => act(() => changeAccount(account.id, { closed: false }))),
    );
  }
  return el(
    "div",
    { class: "row-buttons" },
    small("Reset link", "reset-account", () => askToReset(account, act)),
    account.is_operator
      ? small("Remove operator", "unmake-operator", () => askToUnmake(account, act))
      : small("Make operator", "make-operator", () => askToMake(account, act)),
    small("Close", "close-account", () => askToClose(account, act)),
  );
}

function askToReset(account, act) {
  act(async () => {
    const { url, expires_at: expiresAt } = await resetAccount(account.id);
    showLink(url, expiresAt, account.name);
  });
}

function askToMake(account, act) {
  confirmLoss({
    title: `Make ${account.name} an operator?`,
    text: "An operator may do everything, in every project, and decides about all accounts.",
    confirm: "Make operator",
    action: () => act(() => changeAccount(account.id, { is_operator: true })),
  });
}

function askToUnmake(account, act) {
  confirmLoss({
    title: isOwn(account) ? "Stop being an operator?" : `Take operating away from ${account.name}?`,
    text: "Then only the roles in projects count, from the next moment on.",
    confirm: "Take away",
    action: () => act(() => changeAccount(account.id, { is_operator: false })),
  });
}

function askToClose(account, act) {
  confirmLoss({
    title: isOwn(account) ? "Close your own account?" : `Close the account of ${account.name}?`,
    text: "All its browsers are signed out and nobody signs in to it, until it is opened again. What was done stays in the audit log.",
    confirm: "Close",
    action: () => act(() => changeAccount(account.id, { closed: true })),
  });
}
