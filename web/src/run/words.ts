// What a summary says beside the error, which stands above it.
export function beside(summary: string, error: string | null): string {
  const head = /^(it )?failed: /.exec(summary)?.[0];
  if (!error || !head || !summary.startsWith(head + error)) return summary;
  return summary.slice(head.length + error.length).replace(/^[;,.:\s]+/, "");
}

// A text in parts, of which those between backquotes are code.
export function quoted(text: string): { text: string; isCode: boolean }[] {
  const parts = text.split("`");
  if (parts.length % 2 === 0) return [{ text, isCode: false }]; // one has no end
  return parts
    .map((part, i) => ({ text: part, isCode: i % 2 === 1 }))
    .filter((part) => part.text !== "");
}

// As a sentence begins; a command keeps its letters.
export const sentence = (text: string) => text.slice(0, 1).toUpperCase() + text.slice(1);
