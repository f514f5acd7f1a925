/** Asks how something is shown to others, makes the link, and shows it this once. */

import { createShare } from "../api.js";
import { LIFETIMES, USUAL_LIFETIME, chartLimits, comparedLimits, linkAddress, quadrantLimits } from "../shared.js";
import { el } from "./dom.js";
import { button, checkbox, choice, field, openDialog } from "./forms.js";
import { icon } from "./icons.js";
import { showNote } from "./toasts.js";

const WHAT = { run: "this run", comparison: "this comparison", chart: "this chart" };

/**
 * Opens the dialog. `kind` is run, comparison or chart, `runIds` what is shown, `title` a first proposal,
 * `limits` of a chart what of the run may be read. The view is the address as it stands.
 */
export function openShareDialog({ kind, runIds, title, limits = null, view = window.location.hash }) {
  const name = el("input", { type: "text", maxlength: 200, data: { testid: "share-title" } });
  name.value = title.slice(0, 200);
  const mode = choice(
    [
      { id: "live", name: "Live: as it goes on" },
      { id: "snapshot", name: "Snapshot: as it is now" },
    ],
    { value: "live", data: { testid: "share-mode" } },
  );
  const lifetime = choice(LIFETIMES, { value: USUAL_LIFETIME, data: { testid: "share-lifetime" } });
  const rollouts = checkbox("Also the rollouts: prompts and what the model wrote, in full", {
    data: { testid: "share-rollouts" },
  });
  mode.addEventListener("change", () => {
    // A snapshot holds numbers; the texts stay where they are.
    rollouts.input.disabled = mode.value === "snapshot";
    if (rollouts.input.disabled) rollouts.input.checked = false;
  });
  const titleField = field({ label: "Title", control: name, wide: true, hint: "Whoever opens it reads this." });
  openDialog({
    title: `Share ${WHAT[kind]}`,
    confirm: "Make link",
    testid: "share-dialog",
    focus: name,
    children: [
      el("p", {
        class: "faint",
        text: "Whoever has the link can read what it shows without an account, and nothing else. It can be ended at any time.",
      }),
      el(
        "div",
        { class: "fields" },
        titleField.root,
        field({ label: "Shows", control: mode }).root,
        field({ label: "Ends after", control: lifetime }).root,
      ),
      kind === "chart" ? null : rollouts.root,
    ],
    submit: async () => {
      if (name.value.trim() === "") {
        titleField.setError("Give it a title.");
        name.focus();
        return false;
      }
      const receipt = await createShare({
        title: name.value.trim(),
        kind,
        run_ids: runIds,
        view: view === "" ? "#/" : view,
        mode: mode.value,
        expires_in_seconds: Number(lifetime.value),
        with_rollouts: rollouts.input.checked,
        ...(limits === null ? {} : { limits }),
      });
      // After this one has closed, so that the focus comes back to where it was.
      setTimeout(() => showLink(receipt));
      return true;
    },
  });
}

function showLink(receipt) {
  const address = linkAddress(receipt, window.location.origin);
  const input = el("input", {
    type: "text",
    readonly: true,
    "aria-label": "Link",
    data: { testid: "share-address" },
    on: { focus: () => input.select() },
  });
  input.value = address;
  const copy = button("", { data: { testid: "share-copy" }, on: { click: () => copyText(input) } });
  copy.replaceChildren(icon("copy", 14), el("span", { text: "Copy" }));
  openDialog({
    title: "The link is made",
    confirm: "Done",
    isNews: true,
    testid: "share-made",
    focus: input,
    children: [
      el("p", { text: "It is shown this once. Links are listed, and ended, under Settings, Shared links." }),
      el("div", { class: "share-address" }, input, copy),
      isLocal(address)
        ? el("p", {
            class: "faint",
            text: "It names this machine, so it opens for people who reach the server under this very address.",
          })
        : null,
    ],
    submit: async () => true,
  });
}

function isLocal(address) {
  return ["localhost", "127.0.0.1", "[::1]"].includes(new URL(address).hostname);
}

async function copyText(input) {
  try {
    await navigator.clipboard.writeText(input.value);
    showNote("The link is copied.");
  } catch {
    input.focus();
    showNote("Copying was refused; the link is selected.");
  }
}

/** What the dialog needs to share one panel of a run, as `RunData` holds it; `projects` are whose it is. */
export const panelShare = (panel, title, data) => ({
  kind: "chart",
  runIds: [data.runId],
  projects: [data.summary.project],
  title: `${title} of ${data.summary.name}`,
  limits: chartLimits(panel, data.scope),
});

/** The same for the quadrant. */
export const quadrantShare = (data) => ({
  kind: "chart",
  runIds: [data.runId],
  projects: [data.summary.project],
  title: `Reasoning quadrant of ${data.summary.name}`,
  limits: quadrantLimits(data.scope),
});

/** The same for one chart of a comparison, as `CompareData` holds it; `figure` is null for the quadrant. */
export const comparedShare = (figure, title, data) => ({
  kind: "chart",
  runIds: data.runs.map((run) => run.run_id),
  projects: data.runs.map((run) => run.project),
  title: `${title} of ${data.runs.map((run) => run.name).join(", ")}`,
  limits: comparedLimits(figure, { scope: data.scope, ...pick(data.choice) }),
});

const pick = ({ groupBy, axis }) => ({ groupBy, axis });

/** The button that opens the dialog; `subject()` gives its argument. */
export function shareButton(subject) {
  const node = button("", {
    data: { testid: "share" },
    on: { click: () => openShareDialog(subject()) },
  });
  node.replaceChildren(icon("link", 15), el("span", { text: "Share" }));
  return node;
}
