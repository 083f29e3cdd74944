import { useEffect, useState } from "preact/hooks";
import type { Unit } from "../base/device";
import { runHash } from "../base/route";
import { RunBadge } from "../parts/icons";
import { Name } from "../parts/name";
import { Swatch } from "../parts/swatch";
import { textOf } from "../parts/values";
import type { Axis, Known } from "./compare_api";
import type { Drawing, Subject } from "./drawing";
import { aroundText, placeText, valueText } from "./drawing";
import type { Curve } from "./series";
import { newestOf, valueAt } from "./series";

function Actions({
  id,
  name,
  pinned,
  onPin,
  onRemove,
}: {
  id: string;
  name: string;
  pinned: boolean;
  onPin: (id: string | null) => void;
  onRemove: (id: string) => void;
}) {
  return (
    <span class="legend-actions">
      <button
        type="button"
        aria-pressed={pinned}
        aria-label={`Baseline ${name}`}
        title="Tell the others' figures relative to this run's"
        onClick={() => onPin(pinned ? null : id)}
      >
        Baseline
      </button>
      <button
        type="button"
        aria-label={`Take ${name} out`}
        title="Take out"
        onClick={() => onRemove(id)}
      >
        ×
      </button>
    </span>
  );
}

function Member({ known: { run }, group }: { known: Known; group: boolean }) {
  return (
    <span class="member">
      <a href={runHash(run.id)}>{run.id}</a>
      {group && <span class="small">seed {textOf(run.config?.seed)}</span>}
      <RunBadge run={run} />
    </span>
  );
}

interface Choices {
  names: Map<string, string>; // of runs, by id
  only: string | null;
  base: string | null;
  onOnly: (key: string | null) => void;
  onPin: (id: string | null) => void;
  onRemove: (id: string) => void;
}

interface LineProps extends Choices {
  subject: Subject;
  known: Known[];
  columns: { drawing: Drawing; curve: Curve | undefined }[];
  cursor: number | null;
}

function Line(props: LineProps) {
  const { subject, known, columns, cursor, names, only, base, onOnly, onPin, onRemove } = props;
  const { key, name, seeds, look } = subject;
  return (
    <tr data-subject={key} class={only != null && only !== key ? "faint" : ""}>
      <th scope="row">
        <button
          type="button"
          class="isolate"
          aria-pressed={only === key}
          onClick={() => onOnly(only === key ? null : key)}
        >
          <Swatch look={look} />
          <Name text={name} />
        </button>
        {seeds > 1 && <span class="small">mean ± deviation of {seeds} seeds</span>}
        {subject.hasHidden && (
          <span class="small">values of environment variables are not compared</span>
        )}
      </th>
      {columns.map(({ drawing, curve }) => {
        const newest = curve ? newestOf(curve) : { value: null, around: null };
        const value = cursor == null || !curve ? newest.value : valueAt(curve, cursor);
        const around = cursor == null ? newest.around : null;
        const count = curve?.ends?.length ?? seeds;
        return (
          <td key={drawing.name} class="num" data-name={drawing.title}>
            {valueText(drawing, value, subject)}
            {around != null && ` ± ${aroundText(drawing, around)}`}
            {value != null && count < seeds && ` (${count} of ${seeds})`}
          </td>
        );
      })}
      <td>
        {known.map((one) => (
          <div key={one.run.id} class="members">
            <Member known={one} group={seeds > 1} />
            <Actions
              id={one.run.id}
              name={names.get(one.run.id) ?? one.run.id}
              pinned={base === one.run.id}
              onPin={onPin}
              onRemove={onRemove}
            />
          </div>
        ))}
      </td>
    </tr>
  );
}

// The one legend of all charts, with the values under their cursor, or the newest. It follows the
// cursor by itself: a move of the pointer draws nothing else.
export function Legend({
  subjects,
  members,
  drawings,
  axis,
  unit,
  follow,
  ...rest
}: Choices & {
  subjects: Subject[];
  members: Map<string, Known[]>; // by subject
  drawings: Drawing[];
  axis: Axis;
  unit: Unit; // of hours
  follow: { current: (x: number | null) => void }; // where to be told of the cursor
}) {
  const [cursor, setCursor] = useState<number | null>(null);
  follow.current = setCursor;
  useEffect(() => setCursor(null), [axis]);
  const at = cursor == null ? "newest values" : `values at ${placeText(axis, unit, cursor)}`;
  return (
    <div class="scroll">
      <table class="legend-table cards">
        <caption class="small">
          Legend, with the {at}. Press a name to see it alone.
        </caption>
        <thead>
          <tr>
            <th scope="col">Line</th>
            {drawings.map(({ name, title }) => (
              <th key={name} scope="col" class="num">
                {title}
              </th>
            ))}
            <th scope="col">Runs</th>
          </tr>
        </thead>
        <tbody>
          {subjects.map((subject, index) => (
            <Line
              key={subject.key}
              subject={subject}
              known={members.get(subject.key) ?? []}
              columns={drawings.map((drawing) => ({ drawing, curve: drawing.curves[index] }))}
              cursor={cursor}
              {...rest}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}
