import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { clockError, onClock } from "./base/clock";
import { duration } from "./base/format";
import { useShortcuts } from "./base/keys";
import { usePreference } from "./base/preferences";
import type { View } from "./base/route";
import { go, useRoute } from "./base/route";
import { setTheme, theme } from "./base/theme";
import { focusMain } from "./parts/focus";
import { Sail } from "./parts/icons";
import { Loaded } from "./parts/loaded";

const palette = () => import("./parts/palette");

const kPlaces: { view: View; title: string; key: string }[] = [
  { view: "sweeps", title: "Sweeps", key: "w" },
  { view: "experiments", title: "Experiments", key: "x" },
  { view: "nodes", title: "Nodes", key: "n" },
  { view: "cluster", title: "Cluster", key: "c" },
  { view: "events", title: "Events", key: "e" },
  { view: "submit", title: "Submit", key: "s" },
  { view: "settings", title: "Settings", key: "p" },
];

function Places() {
  const { page } = useRoute();
  useShortcuts([
    { keys: "g r", does: "Go to the runs", act: () => go("#/") },
    ...kPlaces.map(({ view, title, key }) => ({
      keys: `g ${key}`,
      does: `Go to ${title.toLowerCase()}`,
      act: () => go(`#/${view}`),
    })),
  ]);
  return (
    <nav class="places" aria-label="Views">
      <a href="#/" aria-current={page === "runs" ? "page" : undefined}>
        Runs
      </a>
      {kPlaces.map(({ view, title }) => (
        <a key={view} href={`#/${view}`} aria-current={page === view ? "page" : undefined}>
          {title}
        </a>
      ))}
    </nav>
  );
}

// What is around every view: where one can go, the theme, the keys.
function Tools() {
  const [open, setOpen] = useState<"palette" | "keys" | null>(null);
  useShortcuts([
    { keys: "mod+k", does: "Find a run or a view", act: () => setOpen("palette") },
    { keys: "?", does: "These keys", act: () => setOpen("keys") },
  ]);
  const close = () => setOpen(null);
  return (
    <>
      <button type="button" onClick={() => setOpen("palette")} aria-keyshortcuts="Control+K">
        Find <kbd>Ctrl K</kbd>
      </button>
      <button type="button" onClick={() => setOpen("keys")} aria-label="Keys" title="Keys (?)">
        ?
      </button>
      {open === "palette" && (
        <Loaded load={palette} name="Palette" props={{ onClose: close }} onClose={close} />
      )}
      {open === "keys" && (
        <Loaded load={palette} name="Keys" props={{ onClose: close }} onClose={close} />
      )}
    </>
  );
}

const kNextTheme = { auto: "light", light: "dark", dark: "auto" } as const;

function ThemeButton() {
  usePreference("theme"); // another choice draws it again
  const now = theme();
  return (
    <button
      type="button"
      onClick={() => setTheme(kNextTheme[now])}
      title={`Theme: ${now}; press for ${kNextTheme[now]}`}
    >
      <span class="visually-hidden">Theme: </span>
      {now}
    </button>
  );
}

// Its own times are right all the same: they are told by the controller's clock.
function ClockNote() {
  const [error, setError] = useState(clockError);
  useEffect(() => onClock(() => setError(clockError())), []);
  if (error == null) return null;
  const side = error > 0 ? "ahead of" : "behind";
  return (
    <footer class="clock small">
      The clock of this computer is {duration(Math.abs(error) / 1000)} {side} the controller’s. Ages
      and ranges here are by the controller’s.
    </footer>
  );
}

export function Frame({ open, children }: { open: boolean; children: ComponentChildren }) {
  return (
    <>
      <a class="skip" href="#main" onClick={skipToMain}>
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href="#/" aria-label="Regatta, all runs">
          <Sail />
          <span>Regatta</span>
        </a>
        {open ? <Places /> : <span class="motto">time to accuracy</span>}
        <div class="top-tools">
          {open && <Tools />}
          <ThemeButton />
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {children}
      </main>
      {open && <ClockNote />}
    </>
  );
}

// The hash is the page's place, so that the link must not change it.
function skipToMain(event: Event) {
  event.preventDefault();
  focusMain();
}
