/** Rules as a TOML file: out, and in with every fault at its line. */

import { may } from "../access.js";
import { exportRules, importRules } from "../api.js";
import { fileErrors, importWords, lineSpan } from "../alert_rules.js";
import { button } from "./forms.js";
import { el, setAttribute, setText } from "./dom.js";

const MAX_BYTES = 1_000_000;

const EXAMPLE =
  '[[rule]]\nname = "Success is gone"\nmetric = "success"\nscope = "trainer"\noperator = "drop"\nthreshold = 0.5';
const ABOUT =
  "Rules and settings of detectors as TOML, to keep beside your code or to take to another server. " +
  "Importing changes rules of the same name and removes none.";
const EXPORTED =
  "The rules and settings as they are now. Keep the text as a file, or change it and import it.";

const fileText = () =>
  el("textarea", {
    class: "mono",
    rows: 12,
    spellcheck: "false",
    "aria-label": "Rules as TOML",
    "aria-describedby": "rule-file-errors",
    placeholder: EXAMPLE,
    data: { testid: "rule-file" },
  });

export function ruleFilePart({ reload }) {
  const text = fileText();
  const said = el("p", { class: "inbox-said", role: "status", data: { testid: "import-said" } });
  const errors = el("ul", {
    class: "file-errors",
    id: "rule-file-errors",
    data: { testid: "import-errors" },
  });
  const showErrors = (list) => {
    setAttribute(text, "aria-invalid", list.length > 0 ? "true" : null);
    errors.replaceChildren(...list.map((error) => errorRow(error, text)));
  };
  const take = async () => {
    setText(said, "");
    showErrors([]);
    try {
      setText(said, importWords(await importRules(text.value)));
      reload();
    } catch (error) {
      showErrors(fileErrors({ details: error.details ?? [], message: error.message }));
      setText(said, "Nothing was imported.");
    }
  };
  const give = async () => {
    showErrors([]);
    try {
      text.value = await exportRules();
      setText(said, EXPORTED);
    } catch (error) {
      setText(said, `The rules could not be exported: ${error.message}.`);
    }
  };
  const root = el(
    "section",
    { class: "rule-file", "aria-label": "Rules as a file" },
    el("h2", { class: "section-title", text: "As a file" }),
    el("p", { class: "card-note", text: ABOUT }),
    text,
    el(
      "div",
      { class: "controls" },
      may("rule.edit") ? button("Import", { primary: true, data: { testid: "import-rules" }, on: { click: take } }) : null,
      button("Export", { data: { testid: "export-rules" }, on: { click: give } }),
      button("Save as a file", { on: { click: () => saveFile(said) } }),
      may("rule.edit") ? fileChooser(text, said) : null,
    ),
    said,
    errors,
  );
  return { root };
}

function errorRow({ line, message }, text) {
  if (line === null) return el("li", { text: message });
  const lead = button(`Line ${line}`, {
    small: true,
    on: {
      click: () => {
        text.focus();
        text.setSelectionRange(...lineSpan(text.value, line));
        const height = text.scrollHeight / Math.max(1, text.value.split("\n").length);
        text.scrollTop = Math.max(0, (line - 3) * height);
      },
    },
  });
  return el("li", {}, lead, el("span", { text: ` ${message}` }));
}

/** The rules as they are stored, whatever stands in the box. */
async function saveFile(said) {
  try {
    const url = URL.createObjectURL(new Blob([await exportRules()], { type: "application/toml" }));
    el("a", { href: url, download: "alert-rules.toml" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1_000);
  } catch (error) {
    setText(said, `The rules could not be exported: ${error.message}.`);
  }
}

function fileChooser(text, said) {
  const input = el("input", {
    type: "file",
    accept: ".toml,text/plain",
    class: "visually-hidden",
    "aria-label": "Open a file of rules",
  });
  input.addEventListener("change", async () => {
    const [file] = input.files;
    if (file === undefined) return;
    if (file.size > MAX_BYTES) setText(said, "The file is larger than 1 MB; rules are shorter.");
    else {
      text.value = await file.text();
      setText(said, `${file.name} is in the box; look at it and import it.`);
    }
    input.value = "";
  });
  return el("label", { class: "button file-button" }, el("span", { text: "Open a file" }), input);
}
