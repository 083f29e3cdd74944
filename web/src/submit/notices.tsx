import { withoutEscapes } from "../base/format";
import { Dialog } from "../parts/dialog";
import { ErrorPanel } from "../parts/notices";
import type { Draft } from "./draft";
import { sentOther } from "./draft";
import { CheckList } from "./preview";
import type { useSource } from "./state";
import type { Check } from "./submit_api";

// An address may say anything in place of a run's name.
export const shownId = (id: string) => withoutEscapes(id.slice(0, 200));

export function Notices({
  from,
  source,
  failure,
  draft,
  setAgain,
  onLeaveOut,
  lost,
  notSent,
}: {
  from: string | null;
  source: ReturnType<typeof useSource>;
  failure: string | null;
  draft: Draft;
  setAgain: string[]; // keys
  onLeaveOut: () => void; // of these
  lost: boolean;
  notSent: string | null;
}) {
  return (
    <>
      {failure && (
        <section class="notice away" role="status">
          <strong>The controller does not answer</strong>: {withoutEscapes(failure)}. What was typed
          is kept.
        </section>
      )}
      {source.failure && (
        <ErrorPanel
          title={`Not filled from ${shownId(from ?? "the run")}`}
          text={withoutEscapes(source.failure)}
        />
      )}
      {setAgain.length > 0 && <SetAgain keys={setAgain} onLeaveOut={onLeaveOut} />}
      {notSent && (
        <section class="notice error" role="alert">
          <strong>No answer to the submission</strong>: {withoutEscapes(notSent)}.{" "}
          {lost && !sentOther(draft)
            ? "Submitting it again as it is makes no second run."
            : "It may have arrived: look at the list of runs before submitting what was changed."}
        </section>
      )}
    </>
  );
}

function SetAgain({ keys, onLeaveOut }: { keys: string[]; onLeaveOut: () => void }) {
  const variables = keys.filter((key) => key.startsWith("slurm.environment."));
  return (
    <section class="notice warning" role="status">
      <strong>Set again</strong>: {keys.map(withoutEscapes).join(", ")}.
      {variables.length < keys.length && " A browser cannot carry over whole numbers that large."}
      {variables.length > 0 &&
        " The controller tells nobody the values of variables; those of the site’s defaults come" +
          " by themselves."}
      <div class="buttons-left">
        <button type="button" onClick={onLeaveOut}>
          Leave {keys.length === 1 ? "it" : "them"} out
        </button>
      </div>
    </section>
  );
}

interface InTheWayProps {
  id: string;
  onKeep: () => void;
  onFill: () => void;
}

export function InTheWay({ id, onKeep, onFill }: InTheWayProps) {
  return (
    <section class="notice warning" role="status">
      <strong>Something else was typed here and not submitted</strong>
      <div class="buttons-left">
        <button type="button" onClick={onKeep}>
          Keep it
        </button>
        <button type="button" onClick={onFill}>
          Throw it away and fill from {shownId(id)}
        </button>
      </div>
    </section>
  );
}

export function AnywayDialog({
  checks,
  onYes,
  onClose,
}: {
  checks: Check[];
  onYes: () => void;
  onClose: () => void;
}) {
  return (
    <Dialog title="Submit although checks fail?" wide onClose={onClose}>
      {(close) => (
        <>
          <CheckList checks={checks} />
          <p>The run would most likely fail at its start.</p>
          <div class="buttons">
            <button type="button" onClick={close}>
              Back
            </button>
            <button
              type="button"
              class="primary"
              onClick={() => {
                close();
                onYes();
              }}
            >
              Submit anyway
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
}

export function DiscardDialog({ onYes, onClose }: { onYes: () => void; onClose: () => void }) {
  return (
    <Dialog title="Throw away what was typed?" onClose={onClose}>
      {(close) => (
        <>
          <p>The form and the text are emptied. No run is touched.</p>
          <div class="buttons">
            <button type="button" onClick={close}>
              Keep it
            </button>
            <button
              type="button"
              class="danger solid"
              onClick={() => {
                onYes();
                close();
              }}
            >
              Throw away
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
}
