import { useEffect, useState } from "preact/hooks";
import type { Run } from "../base/api";
import { quoted } from "../base/download";
import * as show from "../base/format";
import { messageOf } from "../base/request";
import { Dialog, useAction } from "../parts/dialog";
import { freed } from "./checkpoints";
import { useRefuge } from "../parts/refuge";
import type { CheckpointRow, Cleanup } from "./checkpoints_api";
import { checkpointApi, doing, kMostRead } from "./checkpoints_api";
import { TooLarge } from "./large";

const plural = (count: number) => (count === 1 ? "1 checkpoint" : `${count} checkpoints`);

function sizeText(removed: Cleanup["removed"], rows: CheckpointRow[]): string {
  const { bytes, unknown } = freed(removed, rows);
  if (unknown === removed.length) return "";
  return `${unknown > 0 ? "at least " : ""}${show.bytes(bytes)}`;
}

function sumText({ removed }: Cleanup, rows: CheckpointRow[], isDone: boolean): string {
  const size = sizeText(removed, rows);
  const all = plural(removed.length);
  if (isDone) return `Removed ${all}${size && `; ${size} freed`}.`;
  return removed.length === 0
    ? "Nothing would go."
    : `${all} would go${size && `, which frees ${size}`}.`;
}

function policyText(policy: Cleanup["policy"]): string {
  const words: string[] = [];
  for (const key of ["keep_last", "keep_best", "keep_every"]) {
    if (policy[key]) words.push(`${key} ${String(policy[key])}`);
  }
  return words.join(", ") || "the newest only";
}

function Part({ title, named }: { title: string; named: Cleanup["removed"] }) {
  if (named.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul class="names" tabIndex={0} aria-label={title}>
        {named.map(({ name, step, reasons }) => (
          <li key={name}>
            step {show.count(step)}
            {reasons.length > 0 && (
              <span class="small"> {reasons.map(show.withoutEscapes).join(", ")}</span>
            )}
          </li>
        ))}
      </ul>
    </>
  );
}

// Says first what would go, then removes it.
export function CleanupDialog({
  run,
  rows,
  onClose,
}: {
  run: Run;
  rows: CheckpointRow[];
  onClose: () => void;
}) {
  const [sizes] = useState(rows); // as they were before: what is removed leaves the list
  const [preview, setPreview] = useState<Cleanup | null>(null);
  const [refusal, setRefusal] = useState<string | null>(null);
  const [done, setDone] = useState<Cleanup | null>(null);
  const { busy, failure, act } = useAction();
  const refuge = useRefuge<HTMLDivElement>(done);
  useEffect(() => {
    checkpointApi.cleanUp(run.id, "preview").then(setPreview, (error: unknown) => {
      setRefusal(messageOf(error));
    });
  }, [run.id]);
  const shown = done ?? preview;
  const count = shown?.removed.length ?? 0;
  const message = refusal ? `Not looked at: ${refusal}` : failure;
  // The controller reads the newest before it removes others.
  const bytes = sizes.filter((row) => row.condition === "valid").pop()?.bytes ?? 0;
  const isLarge = bytes > kMostRead;
  return (
    <Dialog title="Clean up the checkpoints?" wide onClose={onClose}>
      {(close) => (
        <>
          <div role="status" ref={refuge}>
            {!shown && !refusal && <p>Asking what would go…</p>}
            {shown && (
              <p>
                {sumText(shown, sizes, done != null)} The run keeps: {policyText(shown.policy)}.
              </p>
            )}
          </div>
          {shown && <Part title={done ? "Removed" : "Would go"} named={shown.removed} />}
          {shown && <Part title="Kept" named={shown.kept} />}
          {message && (
            <p class="failure" role="alert">
              {show.withoutEscapes(message)}
            </p>
          )}
          {isLarge && count > 0 && (
            <TooLarge
              what="The newest, which is read first,"
              bytes={bytes}
              command={`regatta ckpt gc --directory ${quoted(run.directory)}`}
            />
          )}
          <div class="buttons">
            <button type="button" onClick={close}>
              {done || count === 0 ? "Close" : "Keep them"}
            </button>
            {!done && !isLarge && count > 0 && (
              <button
                type="button"
                class="danger solid"
                aria-disabled={busy}
                onClick={() =>
                  act(async () =>
                    setDone(await doing("removed", checkpointApi.cleanUp(run.id, "remove"))),
                  )
                }
              >
                {busy ? "Removing…" : `Remove ${plural(count)}`}
              </button>
            )}
          </div>
        </>
      )}
    </Dialog>
  );
}
