import { useEffect, useState } from "preact/hooks";
import type { Run } from "../base/api";
import { quoted } from "../base/download";
import * as show from "../base/format";
import { usePoll } from "../base/poll";
import { messageOf, Refusal } from "../base/request";
import { Dialog, useAction } from "../parts/dialog";
import { Command } from "../parts/download";
import { useRefuge } from "../parts/refuge";
import type { CheckpointRow, Export, Model } from "./checkpoints_api";
import { checkpointApi, checkpointPath, doing, kModels } from "./checkpoints_api";
import { FileTable } from "./files";

const kPollMilliseconds = 1000;

const kModelTitles: Record<Model, string> = {
  pretraining: "pre-training, with both of its heads",
  encoder: "encoder alone",
  "question-answering": "question answering",
  "sequence-classification": "sequence classification",
};

// A run's task as the model that is exported for it, where nothing else is asked for.
function usualModel(task: string | undefined): Model {
  if (task === "classification" || task === "regression") return "sequence-classification";
  return kModels.find((name) => name === task) ?? "pretraining";
}

function Choice({
  run,
  busy,
  onBegin,
}: {
  run: Run;
  busy: boolean;
  onBegin: (body: { for: Model; with_optimizer: boolean }) => void;
}) {
  const [model, setModel] = useState<Model>(usualModel(run.task));
  const [optimizer, setOptimizer] = useState(false);
  return (
    <form
      id="export"
      onSubmit={(event) => {
        event.preventDefault();
        if (!busy) onBegin({ for: model, with_optimizer: optimizer });
      }}
    >
      <p>
        Makes a directory beside the run that Hugging Face's transformers load. It stays until
        somebody removes it, also when the checkpoint goes.
      </p>
      <div class="form">
        <label>
          Model
          <select
            value={model}
            onChange={(event) => {
              const chosen = event.currentTarget.value;
              setModel(kModels.find((name) => name === chosen) ?? "pretraining");
            }}
          >
            {kModels.map((name) => (
              <option key={name} value={name}>
                {kModelTitles[name]}
              </option>
            ))}
          </select>
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={optimizer}
            onChange={(event) => setOptimizer(event.currentTarget.checked)}
          />
          With the optimizer's state
        </label>
      </div>
    </form>
  );
}

function Made({ run, made }: { run: Run; made: Export }) {
  const name = `${made.name}-export.tar`;
  return (
    <>
      <p class="small">
        Exported to <code>{show.withoutEscapes(made.path)}</code>
      </p>
      <FileTable
        path={`${checkpointPath(run.id, made.name)}/export`}
        files={made.files}
        archive={name}
      />
      <Command
        text={`regatta ckpt download ${quoted(run.id)} ${quoted(made.name)} --export -o model`}
      />
    </>
  );
}

// What there is of it: null nothing, undefined not known yet.
function useExport(run: Run, row: CheckpointRow) {
  const [made, setMade] = useState<Export | null | undefined>(undefined);
  const [failure, setFailure] = useState<string | null>(null);
  const look = async (signal: AbortSignal) => {
    setMade(await checkpointApi.export(run.id, row.name, signal));
    setFailure(null);
  };
  useEffect(() => {
    const stop = new AbortController();
    look(stop.signal).catch((error: unknown) => {
      if (stop.signal.aborted) return;
      setMade(null);
      if (!(error instanceof Refusal && error.status === 404)) {
        setFailure(`Not looked at: ${messageOf(error)}`);
      }
    });
    return () => stop.abort();
  }, [run.id, row.name]);
  usePoll(made?.state === "running" ? row.name : null, kPollMilliseconds, look);
  return { made, failure, setMade, forgive: () => setFailure(null) };
}

// Asks first: the checkpoint that another export would need may have gone.
function Removal({
  busy,
  bytes,
  removes,
  setRemoves,
  removeIt,
}: {
  busy: boolean;
  bytes: number;
  removes: boolean; // asked, and not yet sure
  setRemoves: (removes: boolean) => void;
  removeIt: () => void;
}) {
  if (!removes) {
    return (
      <button type="button" class="danger" onClick={() => setRemoves(true)}>
        Remove the export…
      </button>
    );
  }
  return (
    <>
      <button type="button" onClick={() => setRemoves(false)}>
        Keep it
      </button>
      <button type="button" class="danger solid" aria-disabled={busy} onClick={removeIt}>
        {busy ? "Removing…" : `Remove ${show.bytes(bytes)}`}
      </button>
    </>
  );
}

export function ExportDialog({
  run,
  row,
  onClose,
}: {
  run: Run;
  row: CheckpointRow;
  onClose: () => void;
}) {
  const { made, failure, setMade, forgive } = useExport(run, row);
  const { busy, failure: refusal, act } = useAction();
  const [removes, setRemoves] = useState(false);
  const refuge = useRefuge<HTMLDivElement>(`${made?.state} ${removes}`);
  const choosing = made === null || made?.state === "failed";
  const begin = (body: { for: Model; with_optimizer: boolean }) =>
    act(async () => {
      forgive();
      setMade(await doing("exported", checkpointApi.beginExport(run.id, row.name, body)));
    });
  const removeIt = () =>
    act(async () => {
      await doing("removed", checkpointApi.removeExport(run.id, row.name));
      setRemoves(false);
      setMade(null);
    });
  const bytes = made?.files.reduce((sum, file) => sum + file.bytes, 0) ?? 0;
  const message =
    refusal ?? failure ?? (made?.state === "failed" ? `Not exported: ${made.message}` : null);
  return (
    <Dialog title={`Export the checkpoint of step ${row.step}`} wide onClose={onClose}>
      {(close) => (
        <>
          <div role="status" ref={refuge}>
            {made === undefined && <p>Looking for an export…</p>}
            {made?.state === "running" && (
              <p>Exporting {show.bytes(row.bytes)}; it goes on when this is closed…</p>
            )}
            {made?.state === "done" && !removes && <p>The export is there.</p>}
            {made?.state === "done" && removes && (
              <p>
                Remove the export? Its {show.bytes(bytes)} are gone then; another export needs the
                checkpoint.
              </p>
            )}
          </div>
          {made?.state === "done" && <Made run={run} made={made} />}
          {choosing && <Choice run={run} busy={busy} onBegin={begin} />}
          {message && (
            <p class="failure" role="alert">
              {show.withoutEscapes(message)}
            </p>
          )}
          <div class="buttons">
            {made?.state === "done" && (
              <Removal {...{ busy, bytes, removes, setRemoves, removeIt }} />
            )}
            <button type="button" onClick={close}>
              Close
            </button>
            {choosing && (
              <button type="submit" form="export" class="primary" aria-disabled={busy}>
                Export
              </button>
            )}
          </div>
        </>
      )}
    </Dialog>
  );
}
