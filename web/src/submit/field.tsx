import { useState } from "preact/hooks";
import { same, standardText, textOf, valueOf } from "./run_file";
import type { Field } from "./schema";

const fieldId = (key: string) => `field-${key.replaceAll(".", "-")}`;

// Goes to a field, wherever it is folded away.
export function goToField(key: string) {
  const field = document.getElementById(fieldId(key));
  const folded = field?.closest("details");
  if (folded) folded.open = true;
  field?.focus();
}

const kChoices: Record<string, string[]> = { truth: ["true", "false"] };

function Control({
  field,
  value,
  bad,
  onChange,
}: {
  field: Field;
  value: unknown;
  bad: boolean;
  onChange: (value: unknown) => void;
}) {
  const { key, kind } = field;
  const [typed, setTyped] = useState("");
  const text = textOf(value, kind);
  // What is typed stays as it is while it says the same: "1." is 1.
  const shown = same(valueOf(typed, kind), value) ? typed : (text ?? "");
  const take = (event: Event) => {
    const next = (event.currentTarget as HTMLInputElement).value;
    setTyped(next);
    onChange(valueOf(next, kind));
  };
  const common = {
    id: fieldId(key),
    "aria-invalid": bad ? ("true" as const) : undefined,
    "aria-describedby": `${fieldId(key)}-about`,
  };
  const standard = standardText(field);
  if (text == null) {
    return <input {...common} type="text" readOnly value="set in the text" />;
  }
  if (kind === "choice" || kind === "truth") {
    const choices = kind === "truth" ? (kChoices.truth ?? []) : field.choices;
    const other = shown !== "" && !choices.includes(shown);
    return (
      <select {...common} value={shown} onChange={take}>
        <option value="">{standard === "" ? "not set" : `default: ${standard}`}</option>
        {other && <option value={shown}>{shown}</option>}
        {choices.map((choice) => (
          <option key={choice} value={choice}>
            {choice}
          </option>
        ))}
      </select>
    );
  }
  const writing = { autocomplete: "off", spellcheck: false, onInput: take, value: shown };
  if (kind === "list" || kind === "map" || kind === "mixture" || kind === "long") {
    return <textarea {...common} {...writing} rows={kind === "long" ? 4 : 2} />;
  }
  const figures = kind === "whole" || kind === "number";
  return (
    <input
      {...common}
      {...writing}
      type="text"
      inputMode={kind === "whole" ? "numeric" : figures ? "decimal" : undefined}
      placeholder={standard}
    />
  );
}

export function FieldRow({
  field,
  value,
  problem,
  onChange,
}: {
  field: Field;
  value: unknown;
  problem: string | null;
  onChange: (value: unknown) => void;
}) {
  const id = fieldId(field.key);
  const standard = standardText(field);
  const listed = field.kind === "choice" || field.kind === "truth"; // which say it themselves
  const notes = [field.about, field.range, !listed && standard && `default ${standard}`];
  return (
    <div class={`field-row${value === undefined ? "" : " set"}${problem ? " bad" : ""}`}>
      <label for={id}>{field.name}</label>
      <Control field={field} value={value} bad={problem != null} onChange={onChange} />
      <p class="small" id={`${id}-about`}>
        {problem && <strong class="failure">{problem}</strong>}
        {notes.filter(Boolean).join("; ")}
      </p>
    </div>
  );
}
