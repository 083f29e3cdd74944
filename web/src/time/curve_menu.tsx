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
  onChange,
}: {
  text: string;
  note: string;
  checked: boolean;
  onChange: () => void;
}) {
  return (
    <label>
      <input type="checkbox" checked={checked} onChange={onChange} />
      <Name text={text} />
      <span class="small">{note}</span>
    </label>
  );
}

// Curves to lay beside this one: earlier runs of the same metric, and published results.
export function CurveMenu({ run, ids, names }: { run: Run; ids: string[]; names: string[] }) {
  const [text, setText] = useState("");
  const [offered, setOffered] = useState<Offered | null>(null);
  usePoll(`others ${text}`, 60_000, async (signal) => {
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
  const references = run.metric === "mlm_accuracy" ? (offered?.references ?? []) : [];
  const count = ids.length + names.length;
  const setIds = (next: string[]) => setQuery({ with: next.join(",") }, "replace");
  const setNames = (next: string[]) =>
    setQuery({ reference: next.map(encodeURIComponent).join(",") }, "replace");
  return (
    <Menu label={count > 0 ? `Beside it: ${count}` : "Beside it"}>
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
        {runs.map((one) => (
          <Choice
            key={one.id}
            text={one.id}
            note={show.duration(one.time_to_accuracy_seconds)}
            checked={ids.includes(one.id)}
            onChange={() => setIds(toggled(ids, one.id))}
          />
        ))}
        {offered && runs.length === 0 && <p class="small">No other run of this metric.</p>}
      </div>
      <p class="small">
        {references.length > 0 ? "Published results" : "Published results: none are imported"}
      </p>
      <div class="choices">
        {references.map((one) => (
          <Choice
            key={one.name}
            text={one.name}
            note={[one.submitter, one.chips == null ? null : `${one.chips} chips`]
              .filter((part) => part != null)
              .join(", ")}
            checked={names.includes(one.name)}
            onChange={() => setNames(toggled(names, one.name))}
          />
        ))}
      </div>
    </Menu>
  );
}
