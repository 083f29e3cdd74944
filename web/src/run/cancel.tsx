import { useRef, useState } from "preact/hooks";
import type { Run } from "../base/api";
import { api } from "../base/api";

// Asks before it cancels. The native dialog traps the keyboard and closes on Escape.
export function CancelButton({ run, onChange }: { run: Run; onChange: (run: Run) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const sent = useRef(false); // state would be a render late for a double click
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);

  const cancel = async () => {
    if (sent.current) return;
    sent.current = true;
    setBusy(true);
    setFailure(null);
    try {
      onChange(await api.cancel(run.id));
      dialog.current?.close();
    } catch (error) {
      setFailure(error instanceof Error ? error.message : String(error));
    } finally {
      sent.current = false;
      setBusy(false);
    }
  };
  const stopping = run.state === "stopping";
  return (
    <>
      <button
        type="button"
        class="danger"
        disabled={stopping}
        onClick={() => dialog.current?.showModal()}
      >
        {stopping ? "Stopping…" : "Cancel run"}
      </button>
      <dialog ref={dialog} aria-labelledby="cancel-title">
        <h2 id="cancel-title">Cancel {run.name}?</h2>
        <p>
          It stops within seconds, after writing a checkpoint. Metrics, log and checkpoints stay, and
          it can be resumed.
        </p>
        {failure && (
          <p class="failure" role="alert">
            Not cancelled: {failure}
          </p>
        )}
        <div class="buttons">
          <button type="button" onClick={() => dialog.current?.close()}>
            Keep it running
          </button>
          <button type="button" class="danger solid" disabled={busy} onClick={cancel}>
            {busy ? "Cancelling…" : "Cancel the run"}
          </button>
        </div>
      </dialog>
    </>
  );
}
