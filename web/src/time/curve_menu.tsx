import { useState } from "preact/hooks";
import type { Run, RunRow } from "../base/api";
import { Refusal } from "../base/request";
import * as show from "../base/format";
import { usePoll } from "../base/poll";
import { setQuery } from "../base/route";
import { Menu } from "../parts/menu";
import { Name } from "../parts/name";
import type { ReferenceRow } from "./time_api";
import { kOffered, timeApi } from "./time_api";

export const kMostBeside = 9; // curves beside this one

interface Offered {
  runs: RunRow[];
  references: ReferenceRow[];
}

const toggled = (list: string[], one: string) =>
  list.includes(one) ? list.filter((other) => other !== one) : [...list, one];

function Choice({
  text,
  note,
  checked,
  disabled,
  onChange,
}: {
  text: string;
  note: string;
  checked: boolean;
  disabled?: boolean;
  onChange: () => void;
}) {
  return (
    <label>
      <input type="checkbox" checked={checked} disabled={disabled} onChange={onChange} />
      <Name text={text} />
      <span class="small">{note}</span>
    </label>
  );
}

function publishedText(metric: string, count: number): string {
  if (metric !== "mlm_accuracy") return `Published results have no ${show.metricTitle(metric)}`;
  return count > 0 ? "Published results" : "Published results: none are imported";
}

function Chosen({
  ids,
  names,
  takeId,
  takeName,
}: {
  ids: string[];
  names: string[];
  takeId: (id: string) => void;
  takeName: (name: string) => void;
}) {
  return (
    <div class="choices chosen" role="group" aria-label="Chosen">
      {ids.map((id) => (
        <Choice key={id} text={id} note="" checked onChange={() => takeId(id)} />
      ))}
      {names.map((name) => (
        <Choice
          key={name}
          text={name}
          note="published"
          checked
          onChange={() => takeName(name)}
        />
      ))}
    </div>
  );
}

// Curves to lay beside this one: earlier runs of the same metric, and published results.
export function CurveMenu({ run, ids, names }: { run: Run; ids: string[]; names: string[] }) {
  const [open, setOpen] = useState(false);
  const [text, setText] = useState("");
  const [offered, setOffered] = useState<Offered | null>(null);
  const health = usePoll(open ? `others ${text}` : null, 60_000, async (signal) => {
    const runs = await timeApi.others(text, signal);
    const references = await timeApi.references(signal).catch((error: unknown) => {
      if (error instanceof Refusal) return { references: [] };
      throw error;
    });
    setOffered({ runs: runs.runs, references: references.references });
  });
  const runs = (offered?.runs ?? []).filter(
    (one) => one.id !== run.id && one.metric === run.metric,
  );
  // A published curve is of masked accuracy.
  const references = run.metric === "mlm_accuracy" ? (offered?.references ?? []) : [];
  // What is chosen stays in its list, where the focus is; what no list has stands above them.
  const elsewhere = {
    ids: ids.filter((id) => !runs.some((one) => one.id === id)),
    names: names.filter((name) => !references.some((one) => one.name === name)),
  };
  const trouble = health.refusal?.message ?? health.failure;
  const count = ids.length + names.length;
  const full = count >= kMostBeside;
  const listOf = (next: string[]) => next.map(encodeURIComponent).join(",");
  const setIds = (next: string[]) => setQuery({ with: listOf(next) }, "replace");
  const setNames = (next: string[]) => setQuery({ reference: listOf(next) }, "replace");
  return (
    <Menu label={count > 0 ? `Beside it: ${count}` : "Beside it"} onToggle={setOpen}>
      {elsewhere.ids.length + elsewhere.names.length > 0 && (
        <Chosen
          {...elsewhere}
          takeId={(id) => setIds(toggled(ids, id))}
          takeName={(name) => setNames(toggled(names, name))}
        />
      )}
      <label class="wide">
        Earlier runs that have succeeded
        <input
          type="text"
          value={text}
          placeholder="name or id"
          onInput={(event) => setText(event.currentTarget.value.trim())}
        />
      </label>
      <div class="choices">
        {runs.map(({ id, time_to_accuracy_seconds: seconds }) => (
          <Choice
            key={id}
            text={id}
            note={seconds == null ? "target not reached" : show.duration(seconds)}
            checked={ids.includes(id)}
            disabled={full && !ids.includes(id)}
            onChange={() => setIds(toggled(ids, id))}
          />
        ))}
        {offered && runs.length === 0 && (
          <p class="small">
            None of the newest {kOffered} {text && `with “${text}” `}has this metric
            {text ? "." : "; search by name or id."}
          </p>
        )}
        {!offered && open && !trouble && <p class="small">Loading…</p>}
        {trouble && (
          <p class="small" role="alert">
            No answer: {show.withoutEscapes(trouble)}
          </p>
        )}
      </div>
      <p class="small">{publishedText(run.metric, references.length)}</p>
      <div class="choices">
        {references.map((one) => (
          <Choice
            key={one.name}
            text={one.name}
            note={[
              one.submitter && show.withoutEscapes(one.submitter),
              one.chips != null && `${one.chips} chips`,
            ]
              .filter((part) => part)
              .join(", ")}
            checked={names.includes(one.name)}
            disabled={full && !names.includes(one.name)}
            onChange={() => setNames(toggled(names, one.name))}
          />
        ))}
      </div>
      {full && <p class="small">At most {kMostBeside} curves stand beside this one.</p>}
    </Menu>
  );
}
