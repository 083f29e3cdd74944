import { useEffect, useState } from "preact/hooks";

const kShownMilliseconds = 2500;

export function CopyButton({
  text,
  what = "path",
  label,
  shown: name = "Copy",
}: {
  text: string | (() => Promise<string>); // which is fetched when it is wanted
  what?: string; // it is, before the text itself
  label?: string; // in place of both, behind "Copy"
  shown?: string; // on the button
}) {
  const [outcome, setOutcome] = useState<"Copied" | "Not copied" | null>(null);
  useEffect(() => {
    if (outcome == null) return;
    const timer = setTimeout(() => setOutcome(null), kShownMilliseconds);
    return () => clearTimeout(timer);
  }, [outcome]);
  // Browsers offer the clipboard to https and loopback only.
  if (!navigator.clipboard) return null;
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "string" ? text : await text());
      setOutcome("Copied");
    } catch {
      setOutcome("Not copied"); // the browser's settings forbid it
    }
  };
  const shown = outcome ?? name;
  return (
    <>
      <button
        type="button"
        class="quiet"
        aria-label={`${shown}${label ?? ` ${what} ${String(text)}`}`}
        onClick={copy}
      >
        {shown}
      </button>
      <span class="visually-hidden" role="status">
        {outcome}
      </span>
    </>
  );
}
