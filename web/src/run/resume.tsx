import type { Run } from "../base/api";
import { useAsking } from "./asking";
import { runApi } from "./run_api";

// Lets a run that is over go on. Nothing is lost by it, so it asks nothing.
export function ResumeButton({ run, onChange }: { run: Run; onChange: (run: Run) => void }) {
  const { busy, failure, ask } = useAsking("Not resumed");
  return (
    <>
      {failure && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
      <button
        type="button"
        disabled={busy}
        title={run.checkpoint ? "Go on from the newest checkpoint" : "Start it again"}
        onClick={() => void ask("", async (key) => onChange(await runApi.resume(run.id, key)))}
      >
        {busy ? "Resuming…" : "Resume run"}
      </button>
    </>
  );
}
