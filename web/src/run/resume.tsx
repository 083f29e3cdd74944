import { useRef, useState } from "preact/hooks";
import type { Run } from "../base/api";
import { api } from "../base/api";

// Lets a run that is over go on. Nothing is lost by it, so it asks nothing.
export function ResumeButton({ run, onChange }: { run: Run; onChange: (run: Run) => void }) {
  const sent = useRef(false); // state would be a render late for a double click
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);

  const resume = async () => {
    if (sent.current) return;
    sent.current = true;
    setBusy(true);
    setFailure(null);
    try {
      onChange(await api.resume(run.id));
    } catch (error) {
      setFailure(error instanceof Error ? error.message : String(error));
    } finally {
      sent.current = false;
      setBusy(false);
    }
  };
  return (
    <>
      {failure && (
        <p class="failure" role="alert">
          Not resumed: {failure}
        </p>
      )}
      <button
        type="button"
        disabled={busy}
        title="Go on from the newest checkpoint"
        onClick={resume}
      >
        {busy ? "Resuming…" : "Resume run"}
      </button>
    </>
  );
}
