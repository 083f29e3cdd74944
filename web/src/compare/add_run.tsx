import { useEffect, useId, useState } from "preact/hooks";
import type { RunRow } from "../base/api";
import { api } from "../base/api";
import * as show from "../base/format";
import { messageOf } from "../base/request";
import { Dialog } from "../parts/dialog";
import { RunBadge } from "../parts/icons";
import { Name } from "../parts/name";
import { When } from "../parts/when";

const kMostFound = 12;
const kPauseMilliseconds = 150; // of somebody who types

function useFound(text: string) {
  const [found, setFound] = useState<{ runs: RunRow[] | null; failure: string | null }>({
    runs: null,
    failure: null,
  });
  useEffect(() => {
    const stop = new AbortController();
    const query = new URLSearchParams({ limit: String(kMostFound), ...(text && { text }) });
    const timer = setTimeout(() => {
      api.runs(query.toString(), stop.signal).then(
        ({ runs }) => setFound({ runs, failure: null }),
        (error: unknown) => {
          if (!stop.signal.aborted) setFound({ runs: [], failure: messageOf(error) });
        },
      );
    }, kPauseMilliseconds);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
  return found;
}

// A search for runs that are to be compared as well; it stays open, as one often adds several.
export function AddRun({
  chosen,
  room,
  onAdd,
  onClose,
}: {
  chosen: string[];
  room: number; // for how many more
  onAdd: (id: string) => void;
  onClose: () => void;
}) {
  const [text, setText] = useState("");
  const { runs, failure } = useFound(text.trim());
  const field = useId();
  const status =
    failure ??
    (runs?.length === 0
      ? "No run is like that."
      : room === 0
        ? "Ten runs are compared; take one out to add another."
        : "");
  return (
    <Dialog title="Add a run" wide onClose={onClose}>
      {(close) => (
        <div class="add-run">
          <label for={field}>Name, id or error</label>
          <input
            id={field}
            type="text"
            autocomplete="off"
            spellcheck={false}
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <ul>
            {(runs ?? []).map((run) => {
              const there = chosen.includes(run.id);
              const isOff = there || room === 0;
              const name = show.withoutEscapes(run.name);
              return (
                <li key={run.id}>
                  <button
                    type="button"
                    aria-disabled={isOff}
                    aria-label={there ? `${name} is compared` : `Add ${name} ${run.id}`}
                    onClick={isOff ? undefined : () => onAdd(run.id)}
                  >
                    <Name text={name} />
                    <span class="small">{run.id}</span>
                    <RunBadge run={run} />
                    <span class="small">
                      {there ? "is compared" : <When at={run.created_at} ago />}
                    </span>
                  </button>
                </li>
              );
            })}
          </ul>
          <p class="small" role="status">
            {status}
          </p>
          <div class="buttons">
            <button type="button" onClick={close}>
              Close
            </button>
          </div>
        </div>
      )}
    </Dialog>
  );
}
