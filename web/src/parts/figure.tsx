import { withoutEscapes as clean } from "../base/format";
import { useHelp } from "./help";

// A name, its value, and what it is when the pointer rests on it or its "?" is pressed.
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
  const about = useHelp(name, help);
  return (
    <div title={help}>
      <dt>
        {name}
        {about.button}
      </dt>
      <dd>
        {clean(value)}
        {note && <span class="small">{clean(note)}</span>}
      </dd>
      {about.note && <dd class="help-note">{about.note}</dd>}
    </div>
  );
}
