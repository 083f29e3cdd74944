import type { RefObject } from "preact";
import { useRef, useState } from "preact/hooks";
import type { Run } from "../base/api";
import { hasEnded } from "../base/api";
import { kMostDownload, quoted } from "../base/download";
import * as show from "../base/format";
import { useShortcuts } from "../base/keys";
import { usePoll } from "../base/poll";
import { usePreference } from "../base/preferences";
import { setQuery, useRoute } from "../base/route";
import { useAction } from "../parts/dialog";
import { Command, DownloadButton } from "../parts/download";
import { ErrorPanel } from "../parts/notices";
import { Hits, SearchForm } from "./log_search";
import { LogText } from "./log_text";
import type { LogWindow } from "./log_window";
import { begin, end } from "./log_window";
import { groupsOf } from "./log_files";
import type { FoundLine, LogFile } from "./logs_api";
import { logApi, logPath } from "./logs_api";
import type { UsedLog } from "./use_log";
import { useLog } from "./use_log";
import type { Asked } from "./use_search";
import { useSearch } from "./use_search";

// What programs call their errors; it is put into the search, where a reader may change it.
export const kErrors =
  "\\b(error|fatal|panic|exception|traceback|segmentation fault|out of memory|killed|" +
  "no space left|not finite)\\b";

const kWrap = "log.wrap"; // the preference

function useFiles(run: Run) {
  const [answer, setAnswer] = useState<{ files: LogFile[]; more: boolean } | null>(null);
  usePoll(run.id, hasEnded(run) ? 15_000 : 5000, async (signal) => {
    setAnswer(await logApi.files(run.id, signal));
  });
  return answer;
}

function FileChoice({
  files,
  more,
  value,
  newest,
}: {
  files: LogFile[];
  more: boolean;
  value: string | null;
  newest: string | null;
}) {
  const isUnknown = value != null && files.every((file) => file.name !== value);
  const name = newest == null ? "" : ` (${show.withoutEscapes(newest)})`;
  return (
    <label class="log-choice">
      <span class="visually-hidden">Log</span>
      <select
        value={value ?? ""}
        onChange={(event) => setQuery({ file: event.currentTarget.value || null, at: null })}
      >
        <option value="">Newest log{value == null && name}</option>
        {isUnknown && <option value={value}>{show.withoutEscapes(value)}</option>}
        {groupsOf(files).map((group) => (
          <optgroup key={group.name} label={group.name}>
            {group.files.map((file) => (
              <option key={file.name} value={file.name}>
                {file.title}
              </option>
            ))}
          </optgroup>
        ))}
        {more && <option disabled>older logs are left out</option>}
      </select>
    </label>
  );
}

// What of the log is here, and how to get at what is not.
function Extent({ shown, at }: { shown: LogWindow; at: number | null }) {
  const [typed, setTyped] = useState("");
  const go = (event: Event) => {
    event.preventDefault();
    const offset = Number(typed.replace(/[\s,]/g, ""));
    if (typed.trim() !== "" && Number.isSafeInteger(offset) && offset >= 0) {
      setQuery({ at: String(Math.min(offset, Math.max(0, shown.size - 1))) });
    }
  };
  const all = begin(shown) === 0 && end(shown) >= shown.size;
  const left = shown.size - (end(shown) - begin(shown));
  return (
    <div class="log-extent small">
      <span>
        {all
          ? `All of it: ${show.bytes(shown.size)}.`
          : `Bytes ${show.count(begin(shown))} to ${show.count(end(shown))} of ` +
            `${show.count(shown.size)}; ${show.bytes(left)} are left out here.`}
        {at != null && ` At byte ${show.count(at)}.`}
      </span>
      <form onSubmit={go}>
        <label>
          Go to byte{" "}
          <input
            value={typed}
            inputMode="numeric"
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>{" "}
        <button type="submit" class="quiet">
          Go
        </button>
      </form>
    </div>
  );
}

function commandOf(run: Run, file: string | null): string {
  const which = file == null ? "" : ` --file ${quoted(file)}`;
  return `regatta logs ${quoted(run.id)}${which} > ${quoted(`${run.id}.log`)}`;
}

function CopyShown({ box }: { box: RefObject<HTMLPreElement | null> }) {
  const [copied, setCopied] = useState("");
  if (!navigator.clipboard) return null;
  const copy = () =>
    navigator.clipboard.writeText(box.current?.textContent ?? "").then(
      () => setCopied("Copied"),
      () => setCopied("Not copied"),
    );
  return (
    <button type="button" onClick={copy} onBlur={() => setCopied("")}>
      <span role="status">{copied || "Copy"}</span>
    </button>
  );
}

// The search, and which of its matches is the current one.
function useHits(run: Run, file: string | null, asked: Asked) {
  const [again, setAgain] = useState(0);
  const [current, setCurrent] = useState(-1);
  const show = (line: FoundLine, index: number) => {
    setCurrent(index);
    setQuery({ at: String(line.offset) }, "replace");
  };
  const search = useSearch(run.id, file, asked, again, (line) => show(line, 0));
  const { matches } = search.found;
  const step = async (by: 1 | -1) => {
    const next = current + by;
    const known = matches[next];
    if (known) return show(known, next);
    if (by < 0 || search.busy) return;
    const found = await search.more();
    const line = found?.matches[next];
    if (line) show(line, next);
  };
  return {
    search,
    current: current < matches.length ? current : -1,
    step: (by: 1 | -1) => void step(by),
    // A line around a match counts as the match before it.
    goTo: (line: FoundLine) =>
      show(line, matches.filter((one) => one.offset <= line.offset).length - 1),
    ask: (next: Asked) => {
      setCurrent(-1);
      setAgain((count) => count + 1);
      setQuery({
        grep: next.grep || null,
        case: next.ignoreCase ? "ignore" : null,
        context: next.context > 0 ? String(next.context) : null,
        ...(next.grep === "" && { at: null }),
      });
    },
  };
}

function askedIn(query: URLSearchParams): Asked {
  const context = Number(query.get("context") ?? 0);
  return {
    grep: query.get("grep") ?? "",
    ignoreCase: query.get("case") === "ignore",
    context: Number.isInteger(context) && context >= 0 && context <= 20 ? context : 0,
  };
}
function offsetIn(query: URLSearchParams): number | null {
  const at = query.get("at");
  return at != null && /^\d{1,15}$/.test(at) ? Number(at) : null;
}

function Empty({ files }: { files: LogFile[] }) {
  const others = files.filter((file) => file.bytes > 0).length;
  const which = others === 1 ? "One other is" : `${others} others are`;
  return (
    <p class="nothing">
      The log is empty.
      {others > 0 && ` ${which} not: choose above.`}
    </p>
  );
}

interface Using {
  run: Run;
  file: string | null; // null: the newest
  log: UsedLog;
  follows: boolean;
  onFollow: () => void;
  box: RefObject<HTMLPreElement | null>;
}

function LogTools({
  using,
  listed,
  onFirstError,
}: {
  using: Using;
  listed: { files: LogFile[]; more: boolean } | null;
  onFirstError: () => void;
}) {
  const { run, file, follows } = using;
  const { shown } = using.log;
  const [wrap, setWrap] = usePreference(kWrap);
  const bytes = shown?.size ?? 0;
  return (
    <div class="tools">
      <FileChoice
        files={listed?.files ?? []}
        more={listed?.more ?? false}
        value={file}
        newest={shown?.file ?? null}
      />
      <button type="button" aria-pressed={follows} onClick={using.onFollow} aria-keyshortcuts="f">
        {follows ? "Following" : "Follow"} <kbd>f</kbd>
      </button>
      <button type="button" onClick={onFirstError} aria-keyshortcuts="e">
        First error <kbd>e</kbd>
      </button>
      <button
        type="button"
        aria-pressed={wrap !== "no"}
        onClick={() => setWrap(wrap === "no" ? null : "no")}
      >
        Wrap
      </button>
      <CopyShown box={using.box} />
      {bytes > 0 && bytes <= kMostDownload && (
        <DownloadButton
          path={logPath(run.id, shown?.file ?? file)}
          name={`${run.id}-${(shown?.file ?? "log").replaceAll("/", "-")}`}
          bytes={bytes}
          label="the log"
          quiet={false}
        />
      )}
    </div>
  );
}

// The part that is here, and ways to what is before and behind it.
function Part({
  using,
  shown,
  at,
  onPause,
}: {
  using: Using;
  shown: LogWindow;
  at: number | null;
  onPause: () => void;
}) {
  const { log, follows, box } = using;
  const [wrap] = usePreference(kWrap);
  const { busy, failure, act } = useAction();
  const around = (load: () => Promise<void>) => () => {
    onPause();
    void act(load);
  };
  return (
    <>
      <Extent shown={shown} at={at} />
      {begin(shown) > 0 && (
        <button type="button" class="quiet" disabled={busy} onClick={around(log.earlier)}>
          Show what came before
        </button>
      )}
      <LogText
        shown={shown}
        label={`Log ${show.withoutEscapes(shown.file ?? "of the newest attempt")}`}
        wraps={wrap !== "no"}
        follows={follows}
        place={box}
        onLeave={onPause}
      />
      {!log.isAtEnd && (
        <button type="button" class="quiet" disabled={busy} onClick={around(log.later)}>
          Show what comes after
        </button>
      )}
      {failure && (
        <p class="failure" role="alert">
          {failure}
        </p>
      )}
      {shown.size > kMostDownload && (
        <>
          <p class="small">
            The page downloads files of up to {show.bytes(kMostDownload)}; all of it:
          </p>
          <Command text={commandOf(using.run, shown.file ?? using.file)} />
        </>
      )}
    </>
  );
}

export function LogTab({ run }: { run: Run }) {
  const { query } = useRoute();
  const file = query.get("file");
  const at = offsetIn(query);
  const asked = askedIn(query);
  const [paused, setPaused] = useState(false);
  const follows = at == null && !paused;
  const log = useLog(run, file, at, follows);
  const listed = useFiles(run);
  const hits = useHits(run, file, asked);
  const field = useRef<HTMLInputElement>(null);
  const box = useRef<HTMLPreElement>(null);
  const { shown, health } = log;

  const follow = () => {
    setPaused(follows);
    if (!follows) setQuery({ at: null });
  };
  const firstError = () => hits.ask({ ...asked, grep: kErrors, ignoreCase: true });
  useShortcuts([
    { keys: "/", does: "Search in the log", act: () => field.current?.select() },
    { keys: "f", does: "Follow the log, or pause", act: follow },
    { keys: "e", does: "First error of the log", act: firstError },
    { keys: "n", does: "Next line found", act: () => hits.step(1) },
    { keys: "N", does: "Line found before", act: () => hits.step(-1) },
  ]);
  const using = { run, file, log, follows, onFollow: follow, box };
  return (
    <section class="logs" aria-label="Logs">
      <LogTools using={using} listed={listed} onFirstError={firstError} />
      <SearchForm
        asked={asked}
        field={field}
        onSearch={hits.ask}
        onLeave={() => box.current?.focus()}
      />
      <Hits
        search={hits.search}
        current={hits.current}
        onGo={hits.goTo}
        onNext={() => hits.step(1)}
        onPrevious={() => hits.step(-1)}
        onClose={() => hits.ask({ grep: "", ignoreCase: false, context: 0 })}
      />
      {health.refusal && (
        <ErrorPanel
          title="The log cannot be read"
          text={show.withoutEscapes(health.refusal.message)}
        />
      )}
      {!shown && !health.refusal && <p class="loading">Loading log…</p>}
      {shown?.pieces.length === 0 && <Empty files={listed?.files ?? []} />}
      {shown != null && shown.pieces.length > 0 && (
        <Part using={using} shown={shown} at={at} onPause={() => setPaused(true)} />
      )}
    </section>
  );
}
