// A classic script that runs before the first paint; a module would come after it and flash.
try {
  const stored = localStorage.getItem("collapsewatch.theme");
  if (stored === "light" || stored === "dark") document.documentElement.dataset.theme = stored;
} catch {
  // Storage may be forbidden; the system's theme stands.
}
