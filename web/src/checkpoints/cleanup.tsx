import { useEffect, useState } from "preact/hooks";
import type { Run } from "../base/api";
import * as show from "../base/format";
import { messageOf } from "../base/request";
import { Dialog, useAction } from "../parts/dialog";
import { freed } from "./checkpoints";
import type { CheckpointRow, Cleanup } from "./checkpoints_api";
import { checkpointApi } from "./checkpoints_api";

const plural = (count: number) => (count === 1 ? "1 checkpoint" : `${count} checkpoints`);

function sizeText(removed: Cleanup["removed"], rows: CheckpointRow[]): string {
  const { bytes, unknown } = freed(removed, rows);
  if (unknown === removed.length) return "";
  return `${unknown > 0 ? "at least " : ""}${show.bytes(bytes)}`;
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
  useEffect(() => {
    checkpointApi.cleanUp(run.id, "preview").then(setPreview, (error: unknown) => {
      setRefusal(messageOf(error));
    });
  }, [run.id]);
  const shown = done ?? preview;
  const count = shown?.removed.length ?? 0;
  const size = shown ? sizeText(shown.removed, sizes) : "";
  const message = refusal ?? failure;
  return (
    <Dialog title="Clean up the checkpoints?" wide onClose={onClose}>
      {(close) => (
        <>
          <div role="status">
            {!shown && !refusal && <p>Asking what would go; the newest is read first…</p>}
            {shown && (
              <p>
                {done
                  ? `Removed ${plural(count)}${size && `; ${size} freed`}.`
                  : count === 0
                    ? "Nothing would go."
                    : `${plural(count)} would go${size && `, which frees ${size}`}.`}{" "}
                The run keeps: {policyText(shown.policy)}.
              </p>
            )}
          </div>
          {shown && <Part title={done ? "Removed" : "Would go"} named={shown.removed} />}
          {shown && <Part title="Kept" named={shown.kept} />}
          {message && (
            <p class="failure" role="alert">
              {refusal ? "Not looked at" : "Not removed"}: {show.withoutEscapes(message)}
            </p>
          )}
          <div class="buttons">
            <button type="button" onClick={close}>
              {done || count === 0 ? "Close" : "Keep them"}
            </button>
            {!done && count > 0 && (
              <button
                type="button"
                class="danger solid"
                disabled={busy}
                onClick={() =>
                  act(async () => setDone(await checkpointApi.cleanUp(run.id, "remove")))
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
