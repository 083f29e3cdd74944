import { useEffect, useState } from "preact/hooks";

// What a reader has chosen for every visit: the theme, the columns of the list. Kept by the browser;
// where storage is switched off, until the next reload.
const kPrefix = "regatta.";
const kept = new Map<string, string>();
const listeners = new Set<() => void>();

export function preference(name: string): string | null {
  try {
    return localStorage.getItem(kPrefix + name);
  } catch {
    return kept.get(name) ?? null;
  }
}

export function setPreference(name: string, value: string | null) {
  try {
    if (value == null) localStorage.removeItem(kPrefix + name);
    else localStorage.setItem(kPrefix + name, value);
  } catch {
    if (value == null) kept.delete(name);
    else kept.set(name, value);
  }
  for (const listener of listeners) listener();
}

// Other tabs tell of theirs.
window.addEventListener("storage", () => {
  for (const listener of listeners) listener();
});

export function onPreference(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export function usePreference(name: string): [string | null, (value: string | null) => void] {
  const [value, setValue] = useState(() => preference(name));
  useEffect(() => onPreference(() => setValue(preference(name))), [name]);
  return [value, (next) => setPreference(name, next)];
}
