import { useEffect, useRef, useState } from "preact/hooks";
import type { Run } from "../base/api";
import * as show from "../base/format";
import { freshKey } from "../base/fresh_key";
import { go, runHash } from "../base/route";
import { Dialog, useAction } from "../parts/dialog";
import type { ForkFields } from "./checkpoints";
import { forkBody } from "./checkpoints";
import type { CheckpointRow } from "./checkpoints_api";
import { checkpointApi, doing } from "./checkpoints_api";

// What the run file says, as what a field is without a word; nothing where the browser rounded it.
function before(run: Run, key: "steps" | "seed"): string {
  const value = run.config?.[key] ?? (key === "steps" ? run.steps : null);
  return Number.isSafeInteger(value) ? String(value) : "";
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
      {field("name", "Name", show.withoutEscapes(run.name))}
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
  const isThere = useRef(true);
  useEffect(() => () => void (isThere.current = false), []);
  const submit = () => {
    const answer = forkBody(row.name, fields);
    setProblem(answer.problem == null ? null : `Not forked: ${answer.problem}`);
    const { body } = answer;
    if (!body) return;
    const text = JSON.stringify(body);
    if (asked.current.text !== text) asked.current = { text, key: freshKey() };
    void act(async () => {
      const sent = checkpointApi.fork(run.id, body, asked.current.key, row.bytes ?? 0);
      const fork = await doing("forked", sent);
      if (!isThere.current) return; // the reader went on to something else
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
            empty are as in {show.withoutEscapes(run.name)}, which ends at step{" "}
            {show.count(run.steps)}.
          </p>
          <Fields run={run} fields={fields} onInput={setFields} />
          <div role="alert">
            {message && <p class="failure">{show.withoutEscapes(message)}</p>}
          </div>
          <div role="status">
            {busy && <p class="small">It goes on when this is closed, and is in the list then.</p>}
          </div>
          <div class="buttons">
            <button type="button" onClick={close}>
              {busy ? "Close" : "Leave it"}
            </button>
            <button type="submit" class="primary" aria-disabled={busy}>
              {busy ? "Copying the checkpoint…" : "Fork"}
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
