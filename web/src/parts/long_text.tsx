import { useState } from "preact/hooks";

const kLines = 6;
const kCharacters = 500;

// Of a text that would push away what stands below it; no half of a character.
export function beginOf(text: string): string {
  const lines = text.split("\n", kLines).join("\n");
  return lines.length > kCharacters
    ? lines.slice(0, kCharacters).replace(/[\ud800-\udbff]$/, "")
    : lines;
}

// A text of any length: its first lines, and the rest when it is asked for.
export function LongText({ text }: { text: string }) {
  const [isOpen, setIsOpen] = useState(false);
  const begin = beginOf(text);
  if (begin.length === text.length) return <>{text}</>;
  return (
    <>
      {isOpen ? text : `${begin}…`}{" "}
      <button
        type="button"
        class="quiet"
        aria-expanded={isOpen}
        onClick={() => setIsOpen(!isOpen)}
      >
        {isOpen ? "Show less" : "Show all"}
      </button>
    </>
  );
}
