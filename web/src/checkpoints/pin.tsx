import { useState } from "preact/hooks";
import type { Run } from "../base/api";
import * as show from "../base/format";
import { Dialog, useAction } from "../parts/dialog";
import { bytesOf, kMostReason } from "./checkpoints";
import type { CheckpointRow } from "./checkpoints_api";
import { checkpointApi, doing } from "./checkpoints_api";

interface Props {
  run: Run;
  row: CheckpointRow;
  onClose: () => void;
}

export function PinDialog({ run, row, onClose }: Props) {
  const { busy, failure, act } = useAction();
  const [reason, setReason] = useState("");
  const over = bytesOf(reason) - kMostReason;
  return (
    <Dialog title={`Pin the checkpoint of step ${row.step}?`} onClose={onClose}>
      {(close) => (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (over > 0) return;
            void act(async () => {
              await doing("pinned", checkpointApi.pin(run.id, row.name, reason.trim()));
              close();
            });
          }}
        >
          <p>It stays until somebody unpins it, whatever the run's retention says.</p>
          <div class="form">
            <label>
              Reason (optional)
              <input
                value={reason}
                aria-invalid={over > 0}
                onInput={(event) => setReason(event.currentTarget.value)}
              />
            </label>
          </div>
          <div role="alert">
            {over > 0 && <p class="failure">{over} bytes too long; 500 are taken.</p>}
            {failure && <p class="failure">{show.withoutEscapes(failure)}</p>}
          </div>
          <div class="buttons">
            <button type="button" onClick={close}>
              Leave it
            </button>
            <button type="submit" class="primary" aria-disabled={busy || over > 0}>
              {busy ? "Pinning…" : "Pin"}
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}

export function UnpinDialog({ run, row, onClose }: Props) {
  const { busy, failure, act } = useAction();
  return (
    <Dialog title={`Unpin the checkpoint of step ${row.step}?`} onClose={onClose}>
      {(close) => (
        <>
          <p>The run's retention may then remove it, at the next clean-up or checkpoint.</p>
          <div role="alert">
            {failure && <p class="failure">{show.withoutEscapes(failure)}</p>}
          </div>
          <div class="buttons">
            <button type="button" onClick={close}>
              Keep it pinned
            </button>
            <button
              type="button"
              class="primary"
              aria-disabled={busy}
              onClick={() =>
                act(async () => {
                  await doing("unpinned", checkpointApi.unpin(run.id, row.name));
                  close();
                })
              }
            >
              {busy ? "Unpinning…" : "Unpin"}
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
}
