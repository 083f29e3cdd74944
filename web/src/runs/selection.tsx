import { useEffect, useRef, useState } from "preact/hooks";
import type { RunRow } from "../base/api";
import { api, hasEnded } from "../base/api";
import * as show from "../base/format";
import { messageOf } from "../base/request";
import { go } from "../base/route";
import { Dialog } from "../parts/dialog";

// What can be done with the runs that are selected.
type Deed = "cancel" | "archive" | "tag";
const kWords: Record<Deed, { button: string; doing: string; done: string; note: string }> = {
  cancel: {
    button: "Cancel",
    doing: "Cancelling…",
    done: "asked to stop",
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
  good: string[]; // ids
  refused: [string, string][]; // [name, why]
  left: number; // as they were: the reader had left
}

const kFits: Record<Deed, (run: RunRow) => boolean> = {
  cancel: (run) => !hasEnded(run),
  archive: (run) => hasEnded(run) && !run.archived,
  tag: () => true,
};

// To cancel a run that is over is no refusal, and changes nothing.
async function cancel(run: RunRow) {
  const now = await api.cancel(run.id);
  if (hasEnded(now) && now.state !== "cancelled") throw new Error(`it is over: ${now.state}`);
}

// One after the other: a refusal of one is no reason to leave the others.
async function each(
  runs: RunRow[],
  task: (run: RunRow) => Promise<unknown>,
  good: string[],
  hasLeft: () => boolean,
): Promise<Outcome> {
  const outcome: Outcome = { good, refused: [], left: 0 };
  for (const run of runs) {
    if (hasLeft()) {
      outcome.left += 1;
      continue;
    }
    try {
      await task(run);
      outcome.good.push(run.id);
    } catch (error) {
      outcome.refused.push([show.drawnName(run.name), show.withoutEscapes(messageOf(error))]);
    }
  }
  return outcome;
}

function outcomeText({ good, refused, left }: Outcome, done: string): string {
  const others = left > 0 ? `; ${left} left as ${left === 1 ? "it is" : "they are"}` : "";
  const not = refused.length > 0 ? `, ${refused.length} not:` : "";
  return `${good.length} ${done}${others}${not}`;
}

const wordsOf = (text: string) => text.split(/[\s,]+/).filter((word) => word !== "");

function DeedDialog({
  deed,
  runs,
  onClose,
}: {
  deed: Deed;
  runs: RunRow[];
  onClose: (good: string[] | null) => void; // those it is done to; null: nothing was asked
}) {
  const words = kWords[deed];
  const [busy, setBusy] = useState(false);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [add, setAdd] = useState("");
  const [take, setTake] = useState("");
  // Those that were shown when it was opened, whatever becomes of them meanwhile.
  const [fit] = useState(() => runs.filter(kFits[deed]));
  const sent = useRef(false);
  const good = useRef<string[]>([]);
  const left = useRef(false);
  useEffect(() => () => void (left.current = true), []);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (outcome) button.current?.focus(); // the other one goes
  }, [outcome]);
  const nothing = fit.length === 0 || (deed === "tag" && wordsOf(add + take).length === 0);
  const act = async () => {
    if (sent.current) return; // state would be a render late for a double click
    sent.current = true;
    setBusy(true);
    const labels = { add_tags: wordsOf(add), remove_tags: wordsOf(take) };
    const task = {
      cancel,
      archive: (run: RunRow) => api.archive(run.id),
      tag: (run: RunRow) => api.label(run.id, labels),
    }[deed];
    setOutcome(await each(fit, task, good.current, () => left.current));
    setBusy(false);
  };
  const count = fit.length === 1 ? "1 run" : `${fit.length} runs`;
  return (
    <Dialog title={`${words.button} ${count}?`} onClose={() => onClose(sent.current ? good.current : null)}>
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
              <li key={run.id}>{show.withoutEscapes(run.name)}</li>
            ))}
            {fit.length > 20 && <li>and {fit.length - 20} more</li>}
          </ul>
          <div role="status">
            {outcome && <p>{outcomeText(outcome, words.done)}</p>}
            {outcome?.refused.map(([name, why], index) => (
              <p key={index} class="failure">
                {name}: {why}
              </p>
            ))}
          </div>
          <div class="buttons">
            {!outcome && (
              <button
                type="button"
                onClick={() => {
                  left.current = true;
                  if (!busy) close();
                }}
              >
                {busy ? "Stop after this one" : "Leave it"}
              </button>
            )}
            <button
              type="submit"
              ref={button}
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

export const kMostCompared = 10;
export const kCompareNote = `Select 2 to ${kMostCompared} runs to compare`;

const canCompare = (runs: { id: string }[]) => runs.length > 1 && runs.length <= kMostCompared;
// Why it does not, if it does not.
export function compare(runs: { id: string }[]): string | null {
  if (!canCompare(runs)) return kCompareNote;
  go(`#/compare?${new URLSearchParams({ runs: runs.map((run) => run.id).join(",") })}`);
  return null;
}

export function SelectionBar({
  runs,
  onCompare,
  onClear,
  onChange,
}: {
  runs: RunRow[];
  onCompare: () => void;
  onClear: () => void;
  onChange: (gone: string[]) => void; // ids that are selected no longer
}) {
  const [deed, setDeed] = useState<Deed | null>(null);
  if (runs.length === 0) return null;
  const open = (next: Deed) => () => setDeed(next);
  return (
    <div class="selection" role="region" aria-label="Selected runs">
      <strong role="status">{runs.length} selected</strong>
      <button
        type="button"
        aria-disabled={!canCompare(runs)}
        title={canCompare(runs) ? "Compare (c)" : kCompareNote}
        aria-keyshortcuts="c"
        onClick={onCompare}
      >
        Compare
      </button>
      <button type="button" onClick={open("tag")}>
        Tag…
      </button>
      <button type="button" disabled={!runs.some(kFits.archive)} onClick={open("archive")}>
        Archive…
      </button>
      <button
        type="button"
        class="danger"
        disabled={!runs.some(kFits.cancel)}
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
          onClose={(good) => {
            setDeed(null);
            // The list may have them no longer, and says nothing new of them.
            if (good) onChange(deed === "tag" ? [] : good);
          }}
        />
      )}
    </div>
  );
}
