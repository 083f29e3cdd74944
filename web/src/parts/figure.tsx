// A name, its value, and what it is when the pointer rests on it.
export function Figure({
  name,
  value,
  note,
  help,
}: {
  name: string;
  value: string;
  note?: string | undefined;
  help?: string | undefined;
}) {
  return (
    <div title={help}>
      <dt>{name}</dt>
      <dd>
        {value}
        {note && <span class="small">{note}</span>}
      </dd>
    </div>
  );
}
