import { onPreference, preference, setPreference } from "./preferences";

// Light or dark: what the reader chose, else as the system has it; on paper light. style.css and the charts read the
// colours of data-theme.
export const kThemes = ["auto", "light", "dark"] as const;
export type Theme = (typeof kThemes)[number];

const dark = matchMedia("(prefers-color-scheme: dark)");
const paper = matchMedia("print");
let isPrinted = false; // not every browser tells of it by the query
const changed = new EventTarget();

export function theme(): Theme {
  return kThemes.find((name) => name === preference("theme")) ?? "auto";
}
export function setTheme(next: Theme) {
  setPreference("theme", next === "auto" ? null : next);
}

function apply() {
  const chosen = theme();
  const onScreen = chosen === "auto" ? (dark.matches ? "dark" : "light") : chosen;
  const next = paper.matches || isPrinted ? "light" : onScreen;
  const root = document.documentElement;
  if (root.dataset.theme === next) return;
  root.dataset.theme = next;
  changed.dispatchEvent(new Event("change"));
}

export function startTheme() {
  apply();
  dark.addEventListener("change", apply);
  paper.addEventListener("change", apply);
  for (const event of ["beforeprint", "afterprint"]) {
    window.addEventListener(event, () => {
      isPrinted = event === "beforeprint";
      apply();
    });
  }
  onPreference(apply);
}

export function onTheme(listener: () => void): () => void {
  changed.addEventListener("change", listener);
  return () => changed.removeEventListener("change", listener);
}
