import { kNameEnd, withoutEscapes } from "../base/format";

// A name of any length in one line: what does not fit is cut in front of its end.
export function Name({ text }: { text: string }) {
  const clean = withoutEscapes(text);
  const letters = Array.from(clean);
  if (letters.length <= 2 * kNameEnd) return <span class="cut">{clean}</span>;
  return (
    <span class="cut" title={clean}>
      <span class="head">{letters.slice(0, -kNameEnd).join("")}</span>
      <span class="tail">{letters.slice(-kNameEnd).join("")}</span>
    </span>
  );
}
