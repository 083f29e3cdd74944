import { useState } from "preact/hooks";
import type { Run } from "../base/api";
import { Asking } from "./asking";
import { runApi } from "./run_api";

// Asks before it cancels.
export function CancelButton({ run, onChange }: { run: Run; onChange: (run: Run) => void }) {
  const [open, setOpen] = useState(false);
  const stopping = run.state === "stopping";
  return (
    <>
      <button type="button" class="danger" disabled={stopping} onClick={() => setOpen(true)}>
        {stopping ? "Stopping…" : "Cancel run"}
      </button>
      {open && (
        <Asking
          title={`Cancel ${run.name}?`}
          does="Cancel the run"
          doing="Cancelling…"
          refused="Not cancelled"
          isDangerous
          task={async (key) => onChange(await runApi.cancel(run.id, key))}
          onClose={() => setOpen(false)}
        >
          <p>
            If it trains, it ends after a checkpoint. Metrics, log and checkpoints stay, and it can
            be resumed.
          </p>
        </Asking>
      )}
    </>
  );
}
