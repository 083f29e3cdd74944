import { useEffect, useRef, useState } from "preact/hooks";
import type { Checkpoint, Run } from "../base/api";
import { hasEnded } from "../base/api";
import { now } from "../base/clock";
import { quoted } from "../base/download";
import * as show from "../base/format";
import { usePoll } from "../base/poll";
import { messageOf } from "../base/request";
import { CopyButton } from "../parts/copy_button";
import { ErrorPanel } from "../parts/notices";
import { currentCheckpoints } from "../run/history";
import { ResumeButton } from "../run/resume";
import type { Check } from "./checkpoint_table";
import { CheckpointTable } from "./checkpoint_table";
import { isStored } from "./checkpoints";
import type { CheckpointRow } from "./checkpoints_api";
import { checkpointApi, kMostRead } from "./checkpoints_api";
import { CleanupDialog } from "./cleanup";
import { CompareDialog } from "./compare";
import { ExportDialog } from "./export";
import { FilesDialog } from "./files";
import { ForkDialog } from "./fork";
import { LargeDialog } from "./large";
import { PinDialog, UnpinDialog } from "./pin";

export type Deed = "pin" | "unpin" | "fork" | "export" | "files" | "verify";

// What was verified while the page was open: the controller remembers only what was found damaged.
const checked = new Map<string, Map<string, Check>>();
const checksOf = (run: string) => checked.get(run) ?? new Map<string, Check>();
let reading = Promise.resolve(); // the controller reads one at a time; the others wait for it
const watchers = new Set<() => void>(); // a tab that was left and opened again is another

function note(run: string, name: string, check: Check) {
  checked.set(run, new Map(checksOf(run)).set(name, check));
  for (const draw of watchers) draw();
}

async function read(run: string, name: string) {
  note(run, name, { state: "reading", since: now() });
  try {
    const result = await checkpointApi.verify(run, name);
    note(run, name, { state: "done", result, at: new Date(now()).toISOString() });
  } catch (error) {
    note(run, name, { state: "refused", message: messageOf(error) });
  }
}

// At most each checkpoint once.
function verify(run: string, name: string): Promise<void> {
  const state = checksOf(run).get(name)?.state;
  if (state === "waiting" || state === "reading") return reading;
  note(run, name, { state: "waiting" });
  reading = reading.then(() => read(run, name));
  return reading;
}

function useChecks(run: string) {
  const [, draw] = useState(0);
  useEffect(() => {
    const again = () => draw((count) => count + 1);
    watchers.add(again);
    return () => void watchers.delete(again);
  }, []);
  return checksOf(run);
}

function OpenDialog({
  deed,
  row,
  run,
  onClose,
  onDeed,
}: {
  deed: Deed;
  row: CheckpointRow;
  run: Run;
  onClose: () => void;
  onDeed: (deed: Deed, row: CheckpointRow) => void;
}) {
  const props = { run, row, onClose };
  if (deed === "pin") return <PinDialog {...props} />;
  if (deed === "unpin") return <UnpinDialog {...props} />;
  if (deed === "fork") return <ForkDialog {...props} />;
  if (deed === "export") return <ExportDialog {...props} />;
  if (deed === "verify") return <LargeDialog {...props} />;
  return <FilesDialog {...props} onExport={() => onDeed("export", row)} />;
}

// What can be done with all of them, and what the run goes on from.
function Tools({
  run,
  rows,
  onChange,
  onRefresh,
}: {
  run: Run;
  rows: CheckpointRow[];
  onChange: (run: Run) => void;
  onRefresh: () => void;
}) {
  const [open, setOpen] = useState<"cleanup" | "compare" | null>(null);
  const stored = rows.filter(isStored);
  const resumes = hasEnded(run) && run.state !== "succeeded" && stored.length > 0;
  const close = () => {
    setOpen(null);
    onRefresh();
  };
  return (
    <div class="tools checkpoint-tools">
      {run.checkpoint && (
        <p class="newest-path small">
          Newest: step {show.count(run.checkpoint.step)},{" "}
          <code>{show.withoutEscapes(run.checkpoint.path)}</code>{" "}
          <CopyButton text={run.checkpoint.path} />
        </p>
      )}
      {resumes && <ResumeButton run={run} onChange={onChange} />}
      {stored.length > 1 && (
        <button type="button" onClick={() => setOpen("compare")}>
          Compare…
        </button>
      )}
      {stored.length > 0 && (
        <button type="button" onClick={() => setOpen("cleanup")}>
          Clean up…
        </button>
      )}
      {open === "cleanup" && <CleanupDialog run={run} rows={rows} onClose={close} />}
      {open === "compare" && <CompareDialog run={run} rows={stored} onClose={close} />}
    </div>
  );
}

// Own rows, as a pin or a removal is no event of the run's series; at once where that has a new
// one.
function useRows(run: Run, told: Checkpoint[] | null) {
  const [rows, setRows] = useState<CheckpointRow[] | null>(null);
  const [trouble, setTrouble] = useState<string | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const asked = useRef(0);
  const newest = useRef<{ number: number; answer: unknown }>({ number: 0, answer: null });
  const take = async (signal: AbortSignal) => {
    asked.current += 1;
    const number = asked.current;
    const answer = await checkpointApi.rows(run.id, signal);
    if (number < newest.current.number) return; // what was asked later has been answered
    const isSame = answer === newest.current.answer;
    newest.current = { number, answer };
    setFailure(null);
    if (isSame) return;
    setRows(currentCheckpoints(answer.checkpoints));
    setTrouble(answer.trouble ?? null);
  };
  const health = usePoll(`${run.id} ${told?.length}`, hasEnded(run) ? 15_000 : 5000, take);
  const refresh = () =>
    take(new AbortController().signal).catch((error: unknown) => setFailure(messageOf(error)));
  return {
    rows: rows ?? told,
    trouble: trouble ?? health.refusal?.message ?? health.failure ?? failure,
    refresh: () => void refresh(),
  };
}

function removedNote(removed: number): string {
  const which = removed === 1 ? "One older checkpoint was" : `${removed} older checkpoints were`;
  return `${which} removed to save space.`;
}

export function CheckpointTab({
  run,
  checkpoints,
  onChange,
}: {
  run: Run;
  checkpoints: Checkpoint[] | null;
  onChange: (run: Run) => void;
}) {
  const { rows, trouble, refresh } = useRows(run, checkpoints);
  const checks = useChecks(run.id);
  const [open, setOpen] = useState<{ deed: Deed; row: CheckpointRow } | null>(null);
  const notice = trouble != null && (
    <ErrorPanel
      title="The checkpoints on disk cannot be listed"
      text={show.withoutEscapes(trouble)}
    />
  );
  if (rows == null) return notice || <p class="loading">Loading checkpoints…</p>;
  if (rows.length === 0) {
    const wait = hasEnded(run)
      ? "No checkpoint."
      : "No checkpoint yet; they appear as they are written.";
    return notice || <p class="nothing">{wait}</p>;
  }
  const kept = rows.filter((row) => row.status !== "removed").reverse();
  const removed = rows.length - kept.length;
  return (
    <>
      {notice}
      <Tools run={run} rows={rows} onChange={onChange} onRefresh={refresh} />
      <CheckpointTable
        run={run}
        rows={kept}
        checks={checks}
        onDeed={(deed, row) => setOpen({ deed, row })}
        onVerify={(row) => {
          if ((row.bytes ?? 0) > kMostRead) setOpen({ deed: "verify", row });
          else void verify(run.id, row.name).then(refresh);
        }}
      />
      {removed > 0 && <p class="small">{removedNote(removed)}</p>}
      <p class="small">
        The same at a terminal: <code>regatta ckpt ls {quoted(run.id)}</code>
      </p>
      {open && (
        <OpenDialog
          key={`${open.deed} ${open.row.name}`}
          {...open}
          run={run}
          onDeed={(deed, row) => setOpen({ deed, row })}
          onClose={() => {
            setOpen(null);
            refresh();
          }}
        />
      )}
    </>
  );
}
