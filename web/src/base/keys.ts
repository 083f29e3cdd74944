import { useLayoutEffect, useRef } from "preact/hooks";

// Keys that do something while no field has the focus. A name is a key ("j", "/", "?", "Escape"),
// one with Control or Command ("mod+k"), or two after each other ("g r").
export interface Shortcut {
  keys: string;
  does: string; // for the list of them
  act: () => void;
}

const kSecondKeyMilliseconds = 1500;
const active: Shortcut[][] = []; // the newest last, which comes first
let first: { key: string; at: number } | null = null;

export function shortcuts(): Shortcut[] {
  const seen = new Set<string>();
  const found: Shortcut[] = [];
  for (const group of active.slice().reverse()) {
    for (const one of group) {
      if (!seen.has(one.keys)) found.push(one);
      seen.add(one.keys);
    }
  }
  return found;
}

const kNoText = /^(checkbox|radio|button|submit|file|range)$/;

function takesText(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) &&
    !(target instanceof HTMLInputElement && kNoText.test(target.type))
  );
}

function nameOfKey(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey">): string {
  return event.ctrlKey || event.metaKey ? `mod+${event.key.toLowerCase()}` : event.key;
}

function press(event: KeyboardEvent) {
  if (event.defaultPrevented || event.altKey || event.isComposing) return;
  const name = nameOfKey(event);
  const isCommand = name.startsWith("mod+");
  if (!isCommand && takesText(event.target)) return;
  if (!isCommand && document.querySelector("dialog[open]")) return;
  const all = shortcuts();
  const now = event.timeStamp;
  const pair = first && now - first.at < kSecondKeyMilliseconds ? `${first.key} ${name}` : null;
  first = null;
  const found = all.find((one) => one.keys === pair) ?? all.find((one) => one.keys === name);
  if (found) {
    event.preventDefault();
    found.act();
  } else if (all.some((one) => one.keys.startsWith(`${name} `))) {
    first = { key: name, at: now };
  }
}

// As a reader knows it from the keyboard.
export function shownKeys(keys: string): string {
  return keys.replace("mod+", "Ctrl ").replace("enter", "Enter").replace("Escape", "Esc");
}

export function startKeys() {
  document.addEventListener("keydown", press);
}

// These keys do this from when the component is seen on; those of a newer one come first.
export function useShortcuts(list: Shortcut[]) {
  const latest = useRef(list);
  latest.current = list;
  useLayoutEffect(() => {
    const group = list.map((one, index) => ({
      keys: one.keys,
      does: one.does,
      act: () => latest.current[index]?.act(),
    }));
    active.push(group);
    return () => void active.splice(active.indexOf(group), 1);
    // The keys of a component do not change, what they do may.
  }, []);
}
