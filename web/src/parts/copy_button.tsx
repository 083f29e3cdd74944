import { useEffect, useState } from "preact/hooks";

export function CopyButton({ text, label }: { text: string; label?: string }) {
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
    <button type="button" class="quiet" aria-label={label ?? `Copy path ${text}`} onClick={copy}>
      {copied ? "Copied" : "Copy"}
    </button>
  );
}
