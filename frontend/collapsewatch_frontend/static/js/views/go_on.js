/** Where somebody goes on who is sent elsewhere to sign in: an address loses its last part on the way. */

const KEY = "collapsewatch.goOn";

/** Keeps the address for the moment in which this tab comes back. */
export function keepGoOn(hash) {
  try {
    sessionStorage.setItem(KEY, hash);
  } catch {
    // Storage may be forbidden; it goes on at the list of runs then.
  }
}

/** Goes back there, once. */
export function takeGoOn() {
  let hash = null;
  try {
    hash = sessionStorage.getItem(KEY);
    sessionStorage.removeItem(KEY);
  } catch {
    return;
  }
  if (hash !== null && ["", "#", "#/"].includes(window.location.hash)) {
    window.history.replaceState(null, "", hash);
  }
}
