import { useState } from "preact/hooks";
import type { RunRow } from "../base/api";
import { api, hasEnded } from "../base/api";
import { messageOf } from "../base/request";
import { go } from "../base/route";
import { Dialog } from "../parts/dialog";

// What can be done with the runs that are selected.
type Deed = "cancel" | "archive" | "tag";
const kWords: Record<Deed, { button: string; doing: string; done: string; note: string }> = {
  cancel: {
    button: "Cancel",
    doing: "Cancelling…",
    done: "cancelled",
    note: "They stop within seconds, after writing a checkpoint, and can be resumed. Runs that are over stay as they are.",
  },
  archive: {
    button: "Archive",
    doing: "Archiving…",
    done: "archived",
    note: "They leave the list, and their exports and all but their best and newest checkpoints are removed. Runs that are not over stay as they are.",
  },
  tag: { button: "Tag", doing: "Saving…", done: "tagged", note: "" },
};

interface Outcome {
  good: number;
  refused: [string, string][]; // [name, why]
}

// One after the other: a refusal of one is no reason to leave the others.
async function each(runs: RunRow[], task: (run: RunRow) => Promise<unknown>): Promise<Outcome> {
  const outcome: Outcome = { good: 0, refused: [] };
  for (const run of runs) {
    try {
      await task(run);
      outcome.good += 1;
    } catch (error) {
      outcome.refused.push([run.name, messageOf(error)]);
    }
  }
  return outcome;
}

const wordsOf = (text: string) => text.split(/[\s,]+/).filter((word) => word !== "");

function DeedDialog({
  deed,
  runs,
  onClose,
}: {
  deed: Deed;
  runs: RunRow[];
  onClose: (changed: boolean) => void;
}) {
  const words = kWords[deed];
  const [busy, setBusy] = useState(false);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [add, setAdd] = useState("");
  const [take, setTake] = useState("");
  const fit = runs.filter((run) => deed === "tag" || hasEnded(run) === (deed === "archive"));
  const nothing = fit.length === 0 || (deed === "tag" && wordsOf(add + take).length === 0);
  const act = async () => {
    setBusy(true);
    const labels = { add_tags: wordsOf(add), remove_tags: wordsOf(take) };
    const task = {
      cancel: (run: RunRow) => api.cancel(run.id),
      archive: (run: RunRow) => api.archive(run.id),
      tag: (run: RunRow) => api.label(run.id, labels),
    }[deed];
    setOutcome(await each(fit, task));
    setBusy(false);
  };
  const count = fit.length === 1 ? "1 run" : `${fit.length} runs`;
  return (
    <Dialog title={`${words.button} ${count}?`} onClose={() => onClose(outcome != null)}>
      {(close) => (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (outcome) close();
            else if (!busy && !nothing) void act();
          }}
        >
          {words.note && <p>{words.note}</p>}
          {deed === "tag" && (
            <div class="form">
              <label>
                Add tags
                <input value={add} onInput={(event) => setAdd(event.currentTarget.value)} />
              </label>
              <label>
                Remove tags
                <input value={take} onInput={(event) => setTake(event.currentTarget.value)} />
              </label>
            </div>
          )}
          <ul class="names">
            {fit.slice(0, 20).map((run) => (
              <li key={run.id}>{run.name}</li>
            ))}
            {fit.length > 20 && <li>and {fit.length - 20} more</li>}
          </ul>
          <div role="status">
            {outcome && (
              <p>
                {outcome.good} {words.done}
                {outcome.refused.length > 0 && `, ${outcome.refused.length} not:`}
              </p>
            )}
            {outcome?.refused.map(([name, why], index) => (
              <p key={index} class="failure">
                {name}: {why}
              </p>
            ))}
          </div>
          <div class="buttons">
            {!outcome && (
              <button type="button" onClick={close}>
                Leave it
              </button>
            )}
            <button
              type="submit"
              class={deed === "cancel" && !outcome ? "danger solid" : "primary"}
              disabled={busy || (nothing && !outcome)}
            >
              {outcome ? "Close" : busy ? words.doing : `${words.button} ${count}`}
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

const kMostCompared = 10;

export const canCompare = (runs: RunRow[]) => runs.length > 1 && runs.length <= kMostCompared;
export function compare(runs: RunRow[]) {
  if (!canCompare(runs)) return;
  go(`#/compare?${new URLSearchParams({ runs: runs.map((run) => run.id).join(",") })}`);
}

export function SelectionBar({
  runs,
  onClear,
  onChange,
}: {
  runs: RunRow[];
  onClear: () => void;
  onChange: () => void;
}) {
  const [deed, setDeed] = useState<Deed | null>(null);
  if (runs.length === 0) return null;
  const open = (next: Deed) => () => setDeed(next);
  return (
    <div class="selection" role="region" aria-label="Selected runs">
      <strong role="status">{runs.length} selected</strong>
      <button
        type="button"
        disabled={!canCompare(runs)}
        title={canCompare(runs) ? "Compare (c)" : `Select 2 to ${kMostCompared} runs to compare`}
        aria-keyshortcuts="c"
        onClick={() => compare(runs)}
      >
        Compare
      </button>
      <button type="button" onClick={open("tag")}>
        Tag…
      </button>
      <button type="button" disabled={!runs.some(hasEnded)} onClick={open("archive")}>
        Archive…
      </button>
      <button
        type="button"
        class="danger"
        disabled={runs.every(hasEnded)}
        onClick={open("cancel")}
      >
        Cancel…
      </button>
      <button type="button" class="quiet" onClick={onClear}>
        Clear
      </button>
      {deed && (
        <DeedDialog
          deed={deed}
          runs={runs}
          onClose={(changed) => {
            setDeed(null);
            if (changed) onChange();
          }}
        />
      )}
    </div>
  );
}
