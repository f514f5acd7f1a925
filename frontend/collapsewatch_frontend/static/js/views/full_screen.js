/** A part of the page over the whole screen, and back. */

const FULL = "is-full";

/** Whether the part fills the screen. */
export const isFull = (part) => part.classList.contains(FULL);

/**
 * Fills the screen with the part, or gives it back. Where the browser has no full screen for parts of a page
 * (phones), it fills the window. Escape leaves it in both cases.
 */
export function toggleFull(part) {
  if (isFull(part)) leave(part);
  else enter(part);
}

function enter(part) {
  part.classList.add(FULL);
  document.body.classList.add("has-full");
  const onKey = (event) => {
    if (event.key === "Escape" && !event.defaultPrevented) leave(part);
  };
  const onChange = () => {
    if (document.fullscreenElement !== part) leave(part);
  };
  part.leaveFull = () => {
    document.removeEventListener("keydown", onKey);
    document.removeEventListener("fullscreenchange", onChange);
  };
  document.addEventListener("keydown", onKey);
  // A refusal is no fault: the part fills the window then.
  part
    .requestFullscreen?.()
    .then(() => document.addEventListener("fullscreenchange", onChange))
    .catch(() => {});
}

function leave(part) {
  if (!isFull(part)) return;
  part.classList.remove(FULL);
  document.body.classList.remove("has-full");
  part.leaveFull?.();
  delete part.leaveFull;
  if (document.fullscreenElement === part) document.exitFullscreen().catch(() => {});
}
