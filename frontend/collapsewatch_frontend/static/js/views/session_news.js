/** Tells the other tabs of this browser when somebody signs in or out: their cookie is the same one. */

const NAME = "collapsewatch.session";
const channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(NAME);

export const tellOthers = () => channel?.postMessage("changed");

/** Calls back when another tab signed somebody in or out. */
export const onNews = (listener) => channel?.addEventListener("message", () => listener());
