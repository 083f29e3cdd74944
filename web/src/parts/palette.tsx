import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { RunRow } from "../base/api";
import { api } from "../base/api";
import { withoutEscapes } from "../base/format";
import { shortcuts, shownKeys } from "../base/keys";
import { messageOf } from "../base/request";
import { go, runHash } from "../base/route";
import { Dialog } from "./dialog";
import { RunBadge } from "./icons";

const kMostRuns = 8;
const kPauseMilliseconds = 120; // of somebody who types

interface Choice {
  key: string;
  text: string;
  run?: RunRow;
  act: () => void;
}

interface Found {
  text: string; // that it is the answer to
  runs: RunRow[];
  failure: string | null;
}

// The runs of this text; null before they are here.
function useRuns(text: string): Found | null {
  const [found, setFound] = useState<Found | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    const query = new URLSearchParams({ limit: String(kMostRuns), ...(text && { text }) });
    const timer = setTimeout(() => {
      api.runs(query.toString(), stop.signal).then(
        ({ runs }) => !stop.signal.aborted && setFound({ text, runs, failure: null }),
        (error: unknown) => {
          if (!stop.signal.aborted) setFound({ text, runs: [], failure: messageOf(error) });
        },
      );
    }, kPauseMilliseconds);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
  return found?.text === text ? found : null;
}

// Ctrl+K: one field for runs by name, id or error, and for what the page can do.
export function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [commands] = useState(() => shortcuts().filter((one) => one.keys !== "mod+k"));
  const found = useRuns(text.trim());
  const [waits, setWaits] = useState(false); // Enter was pressed before the runs were here
  const list = useId();
  const chosen = useRef<(() => void) | null>(null);
  const words = text.trim().toLowerCase();
  const choices: Choice[] = [
    ...(found?.runs ?? []).map((run) => ({
      key: run.id,
      text: withoutEscapes(run.name),
      run,
      act: () => go(runHash(run.id)),
    })),
    ...commands
      .filter((one) => words !== "" && one.does.toLowerCase().includes(words))
      .map((one) => ({ key: one.keys, text: one.does, act: one.act })),
  ];
  const newest = Math.max(0, Math.min(at, choices.length - 1));
  const leave = () => {
    onClose();
    chosen.current?.();
  };
  const closeDialog = useRef<(() => void) | null>(null);
  const take = (choice: Choice | undefined) => {
    if (!choice) return;
    chosen.current = choice.act;
    closeDialog.current?.();
  };
  useEffect(() => {
    if (!waits || !found) return;
    setWaits(false);
    take(choices[newest]);
  }, [waits, found]);
  return (
    <Dialog title="Find a run or a view" wide onClose={leave}>
      {(close) => {
        closeDialog.current = close;
        const press = (event: KeyboardEvent) => {
          const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
          if (by != null && choices.length > 0) {
            event.preventDefault();
            setAt((newest + by + choices.length) % choices.length);
          } else if (event.key === "Enter") {
            event.preventDefault();
            if (choices[newest]) take(choices[newest]);
            else setWaits(true);
          }
        };
        return (
          <div class="palette">
            <input
              type="text"
              role="combobox"
              aria-expanded="true"
              aria-controls={list}
              aria-activedescendant={choices[newest] ? `${list}-${newest}` : undefined}
              aria-label="Name, id or error of a run, or what to do"
              placeholder="Name, id or error of a run, or what to do"
              autocomplete="off"
              spellcheck={false}
              value={text}
              onInput={(event) => {
                setText(event.currentTarget.value);
                setAt(0);
                setWaits(false);
              }}
              onKeyDown={press}
            />
            <ul id={list} role="listbox" aria-label="Found">
              {choices.map((choice, index) => (
                <li
                  key={choice.key}
                  id={`${list}-${index}`}
                  role="option"
                  aria-selected={index === newest}
                  onClick={() => take(choice)}
                >
                  <span class="cut">{choice.text}</span>
                  {choice.run && <RunBadge run={choice.run} />}
                </li>
              ))}
            </ul>
            <p class="small" role="status">
              {found?.failure ?? (found && choices.length === 0 ? "Nothing is called so." : "")}
            </p>
          </div>
        );
      }}
    </Dialog>
  );
}

// What keys do now.
export function Keys({ onClose }: { onClose: () => void }) {
  const [list] = useState(shortcuts);
  return (
    <Dialog title="Keys" onClose={onClose}>
      {(close) => (
        <>
          <dl class="keys">
            <div>
              <dt>
                <kbd>Enter</kbd>
              </dt>
              <dd>Open what has the focus</dd>
            </div>
            {list.map((one) => (
              <div key={one.keys}>
                <dt>
                  <kbd>{shownKeys(one.keys)}</kbd>
                </dt>
                <dd>{one.does}</dd>
              </div>
            ))}
          </dl>
          <div class="buttons">
            <button type="button" onClick={close}>
              Close
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
}
