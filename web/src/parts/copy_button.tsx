import { useEffect, useState } from "preact/hooks";

export function CopyButton({
  text,
  what = "path",
  label,
}: {
  text: string;
  what?: string; // it is, before the text itself
  label?: string; // in place of both
}) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  // Browsers offer the clipboard to https and loopback only.
  if (!navigator.clipboard) return null;
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => setCopied(true),
      () => undefined,
    );
  return (
    <button
      type="button"
      class="quiet"
      aria-label={label ?? `Copy ${what} ${text}`}
      onClick={copy}
    >
      {copied ? "Copied" : "Copy"}
    </button>
  );
}
