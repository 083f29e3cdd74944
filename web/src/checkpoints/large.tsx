import type { Run } from "../base/api";
import { quoted } from "../base/download";
import * as show from "../base/format";
import { Dialog } from "../parts/dialog";
import { Command } from "../parts/download";
import type { CheckpointRow } from "./checkpoints_api";
import { kMostRead } from "./checkpoints_api";

// What to do about a checkpoint that a request may not read.
export function TooLarge({
  what,
  bytes,
  command,
}: {
  what: string;
  bytes: number;
  command: string;
}) {
  return (
    <>
      <p>
        {what} has {show.bytes(bytes)}; the page's requests read at most {show.bytes(kMostRead)}. At
        a terminal that sees the run's directory:
      </p>
      <Command text={command} />
    </>
  );
}

export function LargeDialog({
  run,
  row,
  onClose,
}: {
  run: Run;
  row: CheckpointRow;
  onClose: () => void;
}) {
  const command = `ckpt verify --directory ${quoted(run.directory)} ${quoted(row.name)}`;
  return (
    <Dialog title={`Verify the checkpoint of step ${row.step}`} wide onClose={onClose}>
      {(close) => (
        <>
          <TooLarge what="It" bytes={row.bytes ?? 0} command={`regatta ${command}`} />
          <div class="buttons">
            <button type="button" class="primary" onClick={close}>
              Close
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
}
