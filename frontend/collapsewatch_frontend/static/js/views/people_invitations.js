/** Links by which people join, a project or the service: making one, those that are out, and withdrawing one. */

import { createInvitation, removeInvitation } from "../api.js";
import { ROLES, ROLE_HINT, roleName, sentence } from "../accounts.js";
import { formatAge } from "../format.js";
import { el, setText } from "./dom.js";
import { button, checkbox, choice, confirmLoss, field, openDialog } from "./forms.js";
import { showOnce } from "./once_dialog.js";
import { cardTable, textCell } from "./settings_table.js";
import { momentWords } from "./shared_shell.js";

/** `isOfProject`: the links give a role in a project; those of the service give an account alone. */
export function invitationsPart({ reload, isOfProject }) {
  let project = null;
  const idOf = () => project?.id ?? null;
  const said = el("p", { class: "inbox-said", role: "status" });
  const kind = isOfProject ? "project" : "service";
  const table = cardTable({
    caption: "Invitations",
    testid: `${kind}-invitations`,
    keyOf: (invitation) => invitation.id,
    columns: [
      { name: "For", cell: ({ label }) => [label, () => [el("strong", { text: label })]] },
      { name: "Gives", cell: (invitation) => textCell(givesWords(invitation)) },
      { name: "Made", cell: ({ created_at: at }) => textCell(formatAge(at, Date.now())) },
      { name: "Good until", cell: ({ expires_at: at }) => textCell(momentWords(at)) },
      {
        name: "",
        cell: (invitation) => ["end", () => [el("div", { class: "row-buttons" }, endButton(invitation))]],
      },
    ],
  });
  const endButton = (invitation) =>
    button("Withdraw", {
      small: true,
      "aria-label": `Withdraw the invitation of ${invitation.label}`,
      data: { testid: "withdraw", focusKey: "withdraw" },
      on: { click: () => askToWithdraw(invitation, { idOf, reload, say: (text) => setText(said, text) }) },
    });
  const invite = button("Invite", {
    primary: isOfProject,
    data: { testid: `invite-${kind}` },
    on: { click: () => openInviteDialog({ project, isOfProject, reload }) },
  });
  const empty = el("p", { class: "faint", text: "No invitation is out." });
  return {
    root: el(
      "div",
      {},
      el(
        "div",
        { class: "section-head" },
        el(isOfProject ? "h3" : "h2", {
          class: isOfProject ? "group-title" : "section-title",
          text: isOfProject ? "Invitations" : "Invitations to the service",
        }),
        invite,
      ),
      said,
      table.root,
      empty,
    ),
    update(invitations, shown) {
      project = shown;
      table.root.hidden = invitations.length === 0;
      empty.hidden = invitations.length > 0;
      table.update(invitations);
    },
  };
}

function givesWords({ makes_operator: makesOperator, role }) {
  if (makesOperator) return "Operator";
  return role ? roleName(role) : "An account";
}

function askToWithdraw(invitation, { idOf, reload, say }) {
  confirmLoss({
    title: `Withdraw the invitation of ${invitation.label}?`,
    text: "Its link is worthless from the next moment on.",
    confirm: "Withdraw",
    action: async () => {
      try {
        await removeInvitation(idOf(), invitation.id);
      } catch (error) {
        // Used or withdrawn meanwhile: the list that is read anew tells.
        say(sentence(error.message));
      }
      reload();
    },
  });
}

function openInviteDialog({ project, isOfProject, reload }) {
  const label = el("input", {
    type: "text",
    maxlength: 200,
    autocomplete: "off",
    data: { testid: "invite-label" },
  });
  const role = choice(ROLES, { value: "viewer", data: { testid: "invite-role" } });
  const operator = checkbox("Operator: everything, in every project", {
    data: { testid: "invite-operator" },
  });
  const labelField = field({ label: "For whom", control: label, hint: "So that you know the link again." });
  openDialog({
    title: isOfProject ? `Invite to ${project.name}` : "Invite to the service",
    confirm: "Make link",
    testid: "invite-dialog",
    focus: label,
    children: [
      el(
        "div",
        { class: "fields" },
        labelField.root,
        isOfProject ? field({ label: "Role", control: role }).root : null,
      ),
      isOfProject ? el("p", { class: "faint", text: ROLE_HINT }) : operator.root,
    ],
    submit: async () => {
      labelField.setError(label.value.trim() === "" ? "Say for whom it is." : "");
      if (label.value.trim() === "") {
        label.focus();
        return false;
      }
      const gives = isOfProject ? { role: role.value } : { makes_operator: operator.input.checked };
      const made = await createInvitation(project?.id ?? null, { label: label.value.trim(), ...gives });
      reload();
      showLink(made.url, made.expires_at, label.value.trim());
      return true;
    },
  });
}

/** Shows a link to join by, or to set a password by, this once. */
export function showLink(url, expiresAt, whom) {
  showOnce({
    title: `Link for ${whom}`,
    label: "Link",
    testid: "link-made",
    value: url,
    text: `Send it to ${whom}: whoever opens it first takes it. It is good once, until ${momentWords(expiresAt)}, and is shown only now.`,
  });
}
