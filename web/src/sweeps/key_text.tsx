// A key of the run file, which breaks behind dots and underscores where there is little room.
export function KeyText({ text }: { text: string }) {
  return <>{text.split(/(?<=[._])/).map((part, i) => [i > 0 && <wbr key={i} />, part])}</>;
}
