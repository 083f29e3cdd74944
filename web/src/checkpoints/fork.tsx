import { useRef, useState } from "preact/hooks";
import type { Run } from "../base/api";
import * as show from "../base/format";
import { go, runHash } from "../base/route";
import { Dialog, useAction } from "../parts/dialog";
import type { ForkFields } from "./checkpoints";
import { forkBody } from "./checkpoints";
import type { CheckpointRow } from "./checkpoints_api";
import { checkpointApi } from "./checkpoints_api";

// Of random bytes: crypto.randomUUID is there on https and loopback only.
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// What the run file says, as what a field is without a word.
function before(run: Run, key: "steps" | "seed"): string {
  const value = run.config?.[key] ?? (key === "steps" ? run.steps : null);
  return typeof value === "number" ? String(value) : "";
}

function Fields({
  run,
  fields,
  onInput,
}: {
  run: Run;
  fields: ForkFields;
  onInput: (fields: ForkFields) => void;
}) {
  const field = (key: keyof ForkFields, text: string, placeholder: string) => (
    <label>
      {text}
      <input
        value={fields[key]}
        placeholder={placeholder}
        inputMode={key === "name" ? "text" : "decimal"}
        onInput={(event) => onInput({ ...fields, [key]: event.currentTarget.value })}
      />
    </label>
  );
  const target = run.target == null ? "" : String(run.target);
  return (
    <div class="form">
      {field("name", "Name", run.name)}
      <div class="three">
        {field("steps", "Train to step", before(run, "steps"))}
        {field("target", `Target (${show.metricTitle(run.metric)})`, target)}
        {field("seed", "Seed", before(run, "seed"))}
      </div>
      <label>
        Other changes of the run file, as JSON
        <textarea
          rows={3}
          spellcheck={false}
          value={fields.json}
          placeholder='{"optimizer": {"learning_rate": 0.0005}}'
          onInput={(event) => onInput({ ...fields, json: event.currentTarget.value })}
        />
      </label>
    </div>
  );
}

export function ForkDialog({
  run,
  row,
  onClose,
}: {
  run: Run;
  row: CheckpointRow;
  onClose: () => void;
}) {
  const { busy, failure, act } = useAction();
  const [fields, setFields] = useState({ name: "", steps: "", target: "", seed: "", json: "" });
  const [problem, setProblem] = useState<string | null>(null);
  const asked = useRef({ text: "", key: "" }); // the same request again gives the same run
  const submit = () => {
    const answer = forkBody(row.name, fields, run);
    setProblem(answer.problem);
    const { body } = answer;
    if (!body) return;
    const text = JSON.stringify(body);
    if (asked.current.text !== text) asked.current = { text, key: randomKey() };
    void act(async () => {
      const fork = await checkpointApi.fork(run.id, body, asked.current.key, row.bytes ?? 0);
      onClose();
      go(runHash(fork.id));
    });
  };
  const message = problem ?? failure;
  return (
    <Dialog title={`Fork from step ${row.step}?`} wide onClose={onClose}>
      {(close) => (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            submit();
          }}
        >
          <p>
            A new run continues a copy of this checkpoint ({show.bytes(row.bytes)}). Fields left
            empty are as in {run.name}, which ends at step {show.count(run.steps)}.
          </p>
          <Fields run={run} fields={fields} onInput={setFields} />
          <div role="alert">
            {message && <p class="failure">Not forked: {show.withoutEscapes(message)}</p>}
          </div>
          <div class="buttons">
            <button type="button" onClick={close}>
              Leave it
            </button>
            <button type="submit" class="primary" disabled={busy}>
              {busy ? "Copying the checkpoint…" : "Fork"}
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
