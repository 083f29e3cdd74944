import { useEffect, useRef } from "preact/hooks";
import { withoutEscapes } from "../base/format";
import type { Values } from "./run_file";
import { valueAt, withValue } from "./run_file";
import { FieldRow } from "./field";
import type { Field, Group } from "./schema";
import { ToText } from "./text_pane";

// What is wrong, and at which field.
export interface Fault {
  key: string;
  text: string;
}

interface Shared {
  values: Values;
  faults: Fault[];
  onChange: (values: Values) => void;
}

function Rows({ fields, values, faults, onChange }: Shared & { fields: Field[] }) {
  return (
    <>
      {fields.map((field) => (
        <FieldRow
          key={field.key}
          field={field}
          value={valueAt(values, field.key)}
          problem={faults.find((fault) => fault.key === field.key)?.text ?? null}
          onChange={(value) => onChange(withValue(values, field.key, value))}
        />
      ))}
    </>
  );
}

// Fields that few runs set. It opens where one of them is at fault; closing it is the reader's.
function Folded({ title, fields, ...shared }: Shared & { title: string; fields: Field[] }) {
  const place = useRef<HTMLDetailsElement>(null);
  const bad = fields.some((field) => shared.faults.some((fault) => fault.key === field.key));
  useEffect(() => {
    if (bad && place.current) place.current.open = true;
  }, [bad]);
  const set = fields.filter((field) => valueAt(shared.values, field.key) !== undefined).length;
  if (fields.length === 0) return null;
  return (
    <details class="fold" ref={place}>
      <summary>
        {title}
        {set > 0 && `, ${set} set`}
      </summary>
      <Rows fields={fields} {...shared} />
    </details>
  );
}

export function Form({
  groups,
  locked,
  loses,
  ...shared
}: Shared & {
  groups: Group[];
  locked: boolean;
  loses: string[]; // keys of the text whose values a change here cannot keep
}) {
  const usual = groups.filter((group) => group.usual.length > 0);
  const others = groups.filter((group) => group.usual.length === 0);
  return (
    <section aria-labelledby="submit-form" class="submit-form">
      <div class="submit-head">
        <h2 id="submit-form">Form</h2>
        <ToText />
      </div>
      {locked && (
        <p class="small">The fields follow once the controller can read the text as a run file.</p>
      )}
      {!locked && loses.length > 0 && (
        <p class="small">
          A change here would lose {withoutEscapes(loses.join(", "))}; the text has it. Change the
          text, or set it again here.
        </p>
      )}
      {usual.map((group) => (
        <fieldset key={group.key} disabled={locked}>
          <legend>{group.title}</legend>
          <Rows fields={group.usual} {...shared} />
          <Folded
            title={`${group.rest.length} more ${group.rest.length === 1 ? "setting" : "settings"}`}
            fields={group.rest}
            {...shared}
          />
        </fieldset>
      ))}
      <fieldset disabled={locked}>
        <legend>Seldom set</legend>
        {others.map((group) => (
          <Folded key={group.key} title={group.title} fields={group.rest} {...shared} />
        ))}
      </fieldset>
    </section>
  );
}
