/** The name that a person gives for what he or she does, kept in this browser. */

const KEY = "collapsewatch.name";

export function personName() {
  try {
    return localStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

export function keepPersonName(name) {
  try {
    localStorage.setItem(KEY, name);
  } catch {
    // Storage may be forbidden; the name is typed again then.
  }
}
