/** Files that the page makes itself and hands to the browser. */

import { el } from "./dom.js";

/** How long an address of a made file stays good: the browser reads it when it gets to it. */
const KEPT_MS = 60_000;

/** Hands a file to the browser under a name. */
export function saveFile(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = el("a", { href: address, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), KEPT_MS);
}

/** The same for text in UTF-8; the mark at its start lets spreadsheets know that. */
export function saveText(text, name, type) {
  saveFile(new Blob(["\uFEFF", text], { type: `${type};charset=utf-8` }), name);
}
