import { useState } from "preact/hooks";
import type { Run, RunRow } from "../base/api";
import { Refusal } from "../base/request";
import * as show from "../base/format";
import { usePoll } from "../base/poll";
import { setQuery } from "../base/route";
import { Menu } from "../parts/menu";
import { Name } from "../parts/name";
import type { ReferenceRow } from "./time_api";
import { timeApi } from "./time_api";

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
  setIds,
  setNames,
}: {
  ids: string[];
  names: string[];
  setIds: (next: string[]) => void;
  setNames: (next: string[]) => void;
}) {
  return (
    <div class="choices chosen" role="group" aria-label="Chosen">
      {ids.map((id) => (
        <Choice key={id} text={id} note="" checked onChange={() => setIds(toggled(ids, id))} />
      ))}
      {names.map((name) => (
        <Choice
          key={name}
          text={name}
          note="published"
          checked
          onChange={() => setNames(toggled(names, name))}
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
  usePoll(open ? `others ${text}` : null, 60_000, async (signal) => {
    const runs = await timeApi.others(text, signal);
    const references = await timeApi.references(signal).catch((error: unknown) => {
      if (error instanceof Refusal) return { references: [] };
      throw error;
    });
    setOffered({ runs: runs.runs, references: references.references });
  });
  const runs = (offered?.runs ?? []).filter(
    (one) => one.id !== run.id && one.metric === run.metric && !ids.includes(one.id),
  );
  // A published curve is of masked accuracy.
  const published = run.metric === "mlm_accuracy" ? (offered?.references ?? []) : [];
  const references = published.filter((one) => !names.includes(one.name));
  const count = ids.length + names.length;
  const full = count >= kMostBeside;
  const listOf = (next: string[]) => next.map(encodeURIComponent).join(",");
  const setIds = (next: string[]) => setQuery({ with: listOf(next) }, "replace");
  const setNames = (next: string[]) => setQuery({ reference: listOf(next) }, "replace");
  return (
    <Menu label={count > 0 ? `Beside it: ${count}` : "Beside it"} onToggle={setOpen}>
      {count > 0 && <Chosen {...{ ids, names, setIds, setNames }} />}
      <label class="wide">
        Runs that reached their target
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
            note={show.duration(seconds)}
            checked={false}
            disabled={full}
            onChange={() => setIds([...ids, id])}
          />
        ))}
        {offered && runs.length === 0 && <p class="small">No other run of this metric.</p>}
        {!offered && open && <p class="small">Loading…</p>}
      </div>
      <p class="small">{publishedText(run.metric, published.length)}</p>
      <div class="choices">
        {references.map((one) => (
          <Choice
            key={one.name}
            text={one.name}
            note={[one.submitter, one.chips == null ? null : `${one.chips} chips`]
              .filter((part) => part != null)
              .join(", ")}
            checked={false}
            disabled={full}
            onChange={() => setNames(toggled(names, one.name))}
          />
        ))}
      </div>
      {full && <p class="small">At most {kMostBeside} curves stand beside this one.</p>}
    </Menu>
  );
}
