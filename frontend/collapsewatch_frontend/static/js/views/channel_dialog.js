/** The form of a channel. Address and secret are typed once; nothing shows them again. */

import { may } from "../access.js";
import { createChannel, updateChannel } from "../api.js";
import { fieldErrors } from "../alert_rules.js";
import { CHANGE_NAMES, EMPTY_CHANNEL, KINDS, changeOf, draftOf, formOfChannel } from "../channels.js";
import { codeSample } from "./components.js";
import { checkbox, choice, fieldSet, openDialog } from "./forms.js";
import { el } from "./dom.js";

const LEAST = [
  { id: "info", name: "Every alert" },
  { id: "warning", name: "Warnings and critical alerts" },
  { id: "critical", name: "Critical alerts only" },
];

/** Opens the form for a new channel, or for one that is there; `onDone()` is called once it is saved. */
export function openChannelDialog({ channel = null, projects, onDone }) {
  const first = may("channel.edit", null) ? "" : projects[0] ?? "";
  const form = channel === null ? { ...EMPTY_CHANNEL, project: first } : formOfChannel(channel);
  const fields = channelFields({ form, projects, channel });
  openDialog({
    title: channel === null ? "Add a channel" : `Channel ${channel.name}`,
    confirm: channel === null ? "Add" : "Save",
    testid: "channel-dialog",
    focus: fields.first,
    children: [fields.root],
    submit: async () => {
      fields.showErrors({});
      let receipt;
      try {
        const values = fields.values();
        receipt =
          channel === null
            ? await createChannel(draftOf(values))
            : await updateChannel(channel.channel_id, changeOf(values));
      } catch (error) {
        return fields.showErrors(
          fieldErrors({ details: error.details ?? [], message: error.message }, fields.names),
        );
      }
      onDone();
      if (receipt.secret !== null) showSecretOnce(receipt);
      return true;
    },
  });
}

function showSecretOnce({ channel, secret }) {
  openDialog({
    title: `Secret of ${channel.name}`,
    confirm: "I have kept it",
    testid: "secret-dialog",
    isNews: true,
    children: [
      el("p", {
        text: "With this secret the messages are signed. Give it to the receiver now: it is not shown again.",
      }),
      codeSample(secret, "Signing secret"),
    ],
    submit: async () => true,
  });
}

function channelControls(projects, own) {
  const input = (name, props = {}) =>
    el("input", {
      type: "text",
      autocomplete: "off",
      spellcheck: "false",
      data: { testid: `channel-${name}` },
      ...props,
    });
  const secretive = { type: "password", autocomplete: "new-password" };
  const kinds = Object.entries(KINDS).map(([id, { name }]) => ({ id, name }));
  return {
    name: input("name", { maxlength: 100 }),
    kind: choice(kinds, { data: { testid: "channel-kind" } }),
    url: input("url", secretive),
    secret: input("secret", secretive),
    project: choice(
      projectChoices(projects, own),
      {},
    ),
    min_severity: choice(LEAST, { data: { testid: "channel-least" } }),
    digest_after: input("digest", { inputmode: "numeric" }),
    window_seconds: input("window", { inputmode: "decimal" }),
  };
}

function channelFields({ form, projects, channel }) {
  const controls = channelControls(projects, form.project);
  const labels = labelsOf(channel === null ? "" : "Empty: it stays as it is. ");
  const set = fieldSet(controls, { values: form, labels, wide: ["url", "secret"] });
  // What a channel is stays: its address would mean something else.
  controls.kind.disabled = channel !== null;
  const kinds = kindBoxes(form.changes);
  const enabled = checkbox("On", { checked: form.enabled });
  set.fields.url.root.append(legibleSwitch([controls.url, controls.secret]));
  const showKind = () => {
    const kind = KINDS[controls.kind.value];
    set.fields.secret.root.hidden = controls.kind.value !== "webhook";
    controls.url.placeholder = channel === null ? kind.placeholder : "";
    set.fields.kind.setHint(kind.hint);
  };
  controls.kind.addEventListener("change", showKind);
  showKind();
  return {
    root: el("div", { class: "fields" }, set.nodes, kinds.root, enabled.root, set.rest),
    first: controls.name,
    names: set.names,
    values: () => ({ ...set.texts(), changes: kinds.chosen(), enabled: enabled.input.checked }),
    showErrors: set.showErrors,
  };
}

/** An address typed blind is often wrong, so whoever is alone may look at it before it is sent. */
function legibleSwitch(controls) {
  const legible = checkbox("Show address and secret while I type", { data: { testid: "channel-legible" } });
  legible.input.addEventListener("change", () => {
    for (const control of controls) control.type = legible.input.checked ? "text" : "password";
  });
  return legible.root;
}

const labelsOf = (kept) => ({
  name: ["Name", ""],
  kind: ["Kind", ""],
  url: ["Address", `${kept}Typed once and not shown again; it often holds a password.`],
  secret: ["Signing secret (optional)", kept || "16 to 200 characters; one is made up when it is empty."],
  project: ["Project", ""],
  min_severity: ["Severity", ""],
  digest_after: ["Changes until a digest", "When more come within the window, one message lists them."],
  window_seconds: ["Window in seconds", ""],
});

/** A channel that hears of everything is for those who may look after it in all projects. */
function projectChoices(projects, own) {
  const all = may("channel.edit", null) ? [{ id: "", name: "All projects, and the service" }] : [];
  const names = own === "" || projects.includes(own) ? projects : [...projects, own];
  return [...all, ...names.map((name) => ({ id: name, name }))];
}

function kindBoxes(chosen) {
  const boxes = Object.entries(CHANGE_NAMES).map(([id, name]) => ({
    id,
    ...checkbox(name, { checked: chosen.includes(id), data: { testid: `channel-change-${id}` } }),
  }));
  return {
    root: el(
      "fieldset",
      { class: "snoozes field-wide" },
      el("legend", { text: "Only when an alert is (none ticked: every change)" }),
      boxes.map((box) => box.root),
    ),
    chosen: () => boxes.filter(({ input }) => input.checked).map(({ id }) => id),
  };
}
