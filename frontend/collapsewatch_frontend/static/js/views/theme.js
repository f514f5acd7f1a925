/** The theme: the tokens of the style sheet as plain colours, and the choice of light or dark. */

const KEY = "collapsewatch.theme";
const listeners = new Set();
const system = window.matchMedia("(prefers-color-scheme: dark)");
let cached = null;

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen === undefined ? system.matches : chosen === "dark";
}

export const currentTheme = () => (isDark() ? "dark" : "light");

export function toggleTheme() {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem(KEY, next);
  } catch {
    // Storage may be forbidden; the choice holds until the page is closed.
  }
  announce();
}

function announce() {
  cached = null;
  for (const listener of listeners) listener();
}

system.addEventListener("change", announce);

/** Calls back whenever the colours change; returns how to stop it. */
export function onThemeChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Resolved colours and fonts for the charts. Plotly knows no custom properties and no light-dark(). */
export function chartTheme() {
  cached ??= readTheme();
  return cached;
}

function readTheme() {
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  const colour = (token) => {
    probe.style.color = `var(--${token})`;
    return getComputedStyle(probe).color;
  };
  const numbered = (name, from, to) =>
    Array.from({ length: to - from + 1 }, (_, i) => colour(`${name}-${from + i}`));
  const named = (prefix, names) =>
    Object.fromEntries(names.map((name) => [name, colour(`${prefix}${name}`)]));
  const theme = {
    dark: isDark(),
    font: getComputedStyle(document.body).fontFamily,
    fontSize: 12,
    text: colour("text"),
    textSoft: colour("text-soft"),
    textFaint: colour("text-faint"),
    surface: colour("surface"),
    raised: colour("surface-raised"),
    sunken: colour("line-soft"),
    line: colour("line"),
    grid: colour("grid"),
    muted: colour("series-muted"),
    series: numbered("series", 1, 4),
    runs: numbered("run", 1, 8),
    scale: numbered("scale", 0, 3),
    regimes: named("regime-", ["diverse", "template", "compressed", "entropy", "open"]),
    severities: named("", ["critical", "warning", "info"]),
  };
  probe.remove();
  return theme;
}
