// A name of any length in one line: what does not fit is cut in front of its end, which often tells
// runs apart.
const kEnd = 10; // characters that always show

export function Name({ text }: { text: string }) {
  const letters = Array.from(text);
  if (letters.length <= 2 * kEnd) return <span class="cut">{text}</span>;
  return (
    <span class="cut" title={text}>
      <span class="head">{letters.slice(0, -kEnd).join("")}</span>
      <span class="tail">{letters.slice(-kEnd).join("")}</span>
    </span>
  );
}
