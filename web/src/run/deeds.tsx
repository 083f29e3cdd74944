import { useEffect, useId, useState } from "preact/hooks";
import type { Run } from "../base/api";
import { api } from "../base/api";
import * as show from "../base/format";
import { messageOf } from "../base/request";
import { Asking } from "./asking";
import { extensionOf } from "./extension";
import type { Archival, Removal } from "./run_api";
import { runApi } from "./run_api";

export type Deed = "label" | "requeue" | "extend" | "archive" | "remove";

interface DeedProps {
  run: Run;
  onChange: (run: Run) => void;
  onRemoved: (left: string | null) => void; // why files are still there
  onClose: () => void;
}

function Requeue({ run, onChange, onClose }: DeedProps) {
  return (
    <Asking
      title={`Requeue ${run.name}?`}
      does="Requeue the run"
      doing="Requeueing…"
      task={async (key) => onChange(await runApi.requeue(run.id, key))}
      onClose={onClose}
    >
      <p>
        Its attempt, if one runs, ends with a checkpoint. Then it waits in its turn and goes on in a
        new job; no failure is counted.
      </p>
    </Asking>
  );
}

// At the field that it is about.
function Wrong({ id, text }: { id: string; text: string | undefined }) {
  if (text == null) return null;
  return (
    <span id={id} class="failure" role="alert">
      {text}
    </span>
  );
}

function Extend({ run, onChange, onClose }: DeedProps) {
  const [steps, setSteps] = useState("");
  const [target, setTarget] = useState("");
  const [goesOn, setGoesOn] = useState(false);
  const ids = useId();
  const { asked, wrong } = extensionOf(steps, target, goesOn);
  const now = show.target(run);
  return (
    <Asking
      title={`Extend ${run.name}`}
      does="Extend the run"
      doing="Extending…"
      isReady={asked != null}
      what={JSON.stringify(asked)}
      task={async (key) => {
        if (asked) onChange(await runApi.extend(run.id, asked, key));
      }}
      onClose={onClose}
    >
      <p>It goes on in its directory from its newest checkpoint, further than it was to go.</p>
      <div class="form">
        <label>
          Steps in all (now {show.count(run.steps)})
          <input
            inputMode="numeric"
            autocomplete="off"
            value={steps}
            aria-invalid={wrong.steps != null}
            aria-describedby={wrong.steps && `${ids}-steps`}
            onInput={(event) => setSteps(event.currentTarget.value)}
          />
          <Wrong id={`${ids}-steps`} text={wrong.steps} />
        </label>
        <label>
          Target, {show.metricTitle(run.metric)}
          {show.isFraction(run.metric) && " as a fraction from 0 to 1"} (now {now ?? "none"})
          <input
            inputMode="decimal"
            autocomplete="off"
            value={target}
            aria-invalid={wrong.target != null}
            aria-describedby={wrong.target && `${ids}-target`}
            onInput={(event) => setTarget(event.currentTarget.value)}
          />
          <Wrong id={`${ids}-target`} text={wrong.target} />
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={goesOn}
            onChange={(event) => setGoesOn(event.currentTarget.checked)}
          />
          Train on when the target is reached
        </label>
      </div>
    </Asking>
  );
}

const wordsOf = (text: string) => text.split(/[\s,]+/).filter((word) => word !== "");

function Label({ run, onChange, onClose }: DeedProps) {
  const [before] = useState({ tags: run.tags ?? [], note: run.note ?? "" });
  const [tags, setTags] = useState(before.tags.join(" "));
  const [note, setNote] = useState(before.note);
  const wanted = wordsOf(tags);
  const save = async () => {
    // What another has added meanwhile stays.
    const add = wanted.filter((tag) => !before.tags.includes(tag));
    const take = before.tags.filter((tag) => !wanted.includes(tag));
    const changes = {
      ...(add.length > 0 && { add_tags: add }),
      ...(take.length > 0 && { remove_tags: take }),
      ...(note !== before.note && { note: note === "" ? null : note }),
    };
    if (Object.keys(changes).length > 0) onChange(await api.label(run.id, changes));
  };
  return (
    <Asking
      title={`Tags and note of ${run.name}`}
      does="Save"
      doing="Saving…"
      leave="Leave as they are"
      task={save}
      onClose={onClose}
    >
      <div class="form">
        <label>
          Tags, with blanks between them
          <input
            autocomplete="off"
            spellcheck={false}
            value={tags}
            onInput={(event) => setTags(event.currentTarget.value)}
          />
        </label>
        <label>
          Note
          <textarea
            rows={4}
            value={note}
            onInput={(event) => setNote(event.currentTarget.value)}
          />
        </label>
      </div>
    </Asking>
  );
}

// What the controller says it would do.
function usePreview<T>(
  key: string,
  ask: () => Promise<T>,
): { told: T | null; refused: string | null } {
  const [answer, setAnswer] = useState<{ key: string; told: T | null; refused: string | null }>({
    key: "",
    told: null,
    refused: null,
  });
  useEffect(() => {
    let left = false;
    ask().then(
      (told) => !left && setAnswer({ key, told, refused: null }),
      (error: unknown) => !left && setAnswer({ key, told: null, refused: messageOf(error) }),
    );
    return () => {
      left = true;
    };
  }, [key]);
  return answer.key === key ? answer : { told: null, refused: null };
}

const checkpoints = (amount: number) => (amount === 1 ? "1 checkpoint" : `${amount} checkpoints`);

function Preview({ isAsked, refused }: { isAsked: boolean; refused: string | null }) {
  if (refused != null) {
    return (
      <p class="failure" role="alert">
        {refused}
      </p>
    );
  }
  return isAsked ? <p>Asking what it would free…</p> : null;
}

function Archive({ run, onChange, onClose }: DeedProps) {
  const { told, refused } = usePreview<Archival>(run.id, () => runApi.previewArchival(run.id));
  return (
    <Asking
      title={`Archive ${run.name}?`}
      does={told ? `Archive it and free ${show.bytes(told.bytes)}` : "Archive it"}
      doing="Archiving…"
      isReady={told != null}
      task={async (key) => {
        await runApi.archive(run.id, key);
        onChange({ ...run, archived: true });
      }}
      onClose={onClose}
    >
      <p>It leaves the list of runs. Metrics, log and events stay; a resume brings it back.</p>
      <Preview isAsked={!told} refused={refused} />
      {told && (
        <p>
          Frees {show.bytes(told.bytes)}: {checkpoints(told.removed.length)}
          {told.exports > 0 && ` and ${show.bytes(told.exports)} of exports`} to be removed,{" "}
          {checkpoints(told.kept.length)} to stay.
        </p>
      )}
    </Asking>
  );
}

function Freed({ told }: { told: Removal }) {
  const parts = Object.entries(told.freed).filter(([, size]) => size > 0);
  return (
    <>
      <p>
        Frees {show.bytes(told.bytes)} in {told.files === 1 ? "1 file" : `${told.files} files`}.
      </p>
      <ul class="names">
        {parts.map(([name, size]) => (
          <li key={name}>
            {name}: {show.bytes(size)}
          </li>
        ))}
        {told.pinned.map((name) => (
          <li key={name}>pinned checkpoint: {show.withoutEscapes(name)}</li>
        ))}
      </ul>
    </>
  );
}

function Remove({ run, onRemoved, onClose }: DeedProps) {
  const [pinnedToo, setPinnedToo] = useState(false);
  const { told, refused } = usePreview<Removal>(String(pinnedToo), () =>
    runApi.previewRemoval(run.id, pinnedToo),
  );
  return (
    <Asking
      title={`Remove ${run.name}?`}
      does={told ? `Remove it and free ${show.bytes(told.bytes)}` : "Remove it"}
      doing="Removing…"
      leave="Keep it"
      isDangerous
      isReady={told != null}
      what={String(pinnedToo)}
      task={async (key) => onRemoved((await runApi.remove(run.id, { pinnedToo, key })).left)}
      onClose={onClose}
    >
      <p>
        Its directory with checkpoints, exports, logs and journal goes, and all that is known of it.
        This cannot be undone.
      </p>
      <Preview isAsked={!told} refused={refused} />
      {told && <Freed told={told} />}
      <div class="form">
        <label class="check">
          <input
            type="checkbox"
            checked={pinnedToo}
            onChange={(event) => setPinnedToo(event.currentTarget.checked)}
          />
          Also with pinned checkpoints
        </label>
      </div>
    </Asking>
  );
}

const kDialogs = {
  label: Label,
  requeue: Requeue,
  extend: Extend,
  archive: Archive,
  remove: Remove,
};

export function DeedDialog({ deed, ...props }: DeedProps & { deed: Deed }) {
  const Shown = kDialogs[deed];
  return <Shown {...props} />;
}
