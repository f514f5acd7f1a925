/** Members of a project: their roles, and taking them away. */

import { removeMember, setMember } from "../api.js";
import { isOperator, whoAmI } from "../access.js";
import { ROLES, ROLE_HINT, sentence } from "../accounts.js";
import { formatAge } from "../format.js";
import { el, setText } from "./dom.js";
import { button, choice, confirmLoss, field, openDialog } from "./forms.js";
import { cardTable, textCell } from "./settings_table.js";

export function membersPart({ reload }) {
  let project = null;
  let free = [];
  const said = el("p", { class: "inbox-said", role: "status", data: { testid: "members-said" } });
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
    caption: "Members",
    testid: "members",
    keyOf: (member) => member.account_id,
    columns: [
      { name: "Name", cell: ({ name }) => [name, () => [el("strong", { text: ownName(name) })]] },
      { name: "Role", cell: (member) => [member.role, () => [roleChoice(member)]] },
      {
        name: "Last seen",
        cell: ({ last_seen_at: at }) => textCell(at === null ? "never" : formatAge(at, Date.now())),
      },
      {
        name: "",
        cell: (member) => ["remove", () => [el("div", { class: "row-buttons" }, removeButton(member))]],
      },
    ],
  });
  const roleChoice = (member) =>
    choice(ROLES, {
      value: member.role,
      "aria-label": `Role of ${member.name}`,
      data: { testid: "member-role", focusKey: "role" },
      on: { change: (event) => act(() => setMember(project.id, member.account_id, event.target.value)) },
    });
  const removeButton = (member) =>
    button("Remove", {
      small: true,
      "aria-label": `Remove ${member.name}`,
      data: { testid: "remove-member", focusKey: "remove" },
      on: { click: () => askToRemove(member, project, act) },
    });
  const add = button("Add an account", {
    data: { testid: "add-member" },
    on: { click: () => openAddDialog(project, free, reload) },
  });
  const empty = el("p", {
    class: "card empty-card",
    data: { testid: "no-members" },
    text: "Nobody has a role in this project yet. Operators see it all the same.",
  });
  return {
    root: el(
      "div",
      {},
      el("p", { class: "card-note", text: ROLE_HINT }),
      said,
      table.root,
      empty,
      el("p", { class: "settings-add" }, add),
    ),
    update({ members, accounts, project: shown }) {
      project = shown;
      table.root.hidden = members.length === 0;
      empty.hidden = members.length > 0;
      table.update(members);
      const has = new Set(members.map((member) => member.account_id));
      free = accounts.filter(({ id, closed_at: closed }) => closed === null && !has.has(id));
      add.hidden = !isOperator() || free.length === 0;
    },
  };
}

const ownName = (name) => (name === whoAmI().name ? `${name} (you)` : name);

function askToRemove(member, project, act) {
  const isOwn = member.name === whoAmI().name;
  confirmLoss({
    title: isOwn ? `Leave ${project.name}?` : `Remove ${member.name} from ${project.name}?`,
    text: isOwn
      ? "You no longer see this project, from the next moment on."
      : "The account stays; it no longer sees this project, from the next moment on.",
    confirm: isOwn ? "Leave" : "Remove",
    action: () => act(() => removeMember(project.id, member.account_id)),
  });
}

/** Only operators know of accounts that are not in the project; others invite. */
function openAddDialog(project, accounts, reload) {
  const who = choice(
    accounts.map(({ id, name }) => ({ id: String(id), name })),
    { value: String(accounts[0].id) },
  );
  const role = choice(ROLES, { value: "viewer", data: { testid: "add-member-role" } });
  openDialog({
    title: `Add an account to ${project.name}`,
    confirm: "Add",
    testid: "add-member-dialog",
    focus: who,
    children: [
      el(
        "div",
        { class: "fields" },
        field({ label: "Account", control: who }).root,
        field({ label: "Role", control: role }).root,
      ),
    ],
    submit: async () => {
      await setMember(project.id, Number(who.value), role.value);
      reload();
      return true;
    },
  });
}
