import type { RefObject } from "preact";
import { useId, useRef, useState } from "preact/hooks";
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
import { useKeptFocus } from "../parts/kept_focus";
import { ErrorPanel } from "../parts/notices";
import type { Found } from "./found";
import { matchAt, nextMatch } from "./found";
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
const kErrors =
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
        onChange={(event) =>
          setQuery({ file: event.currentTarget.value || null, at: null, of: null })
        }
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
  const [isBad, setIsBad] = useState(false);
  const problem = useId();
  const go = (event: Event) => {
    event.preventDefault();
    const offset = /^\d[\d,\s]*$/.test(typed.trim()) ? Number(typed.replace(/[\s,]/g, "")) : NaN;
    setIsBad(!Number.isSafeInteger(offset));
    if (!Number.isSafeInteger(offset)) return;
    setQuery({ at: String(Math.min(offset, Math.max(0, shown.size - 1))), of: shown.file });
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
            aria-invalid={isBad ? "true" : undefined}
            aria-describedby={isBad ? problem : undefined}
            onInput={(event) => {
              setTyped(event.currentTarget.value);
              setIsBad(false);
            }}
          />
        </label>{" "}
        <button type="submit" class="quiet">
          Go
        </button>
        {isBad && (
          <span class="failure" role="alert" id={problem}>
            {" "}
            Type the number of a byte: 0 or more, in digits.
          </span>
        )}
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

// The search, and which of its matches is the current one: the one at the place of the address, or
// where one was last.
function useHits(run: Run, { chosen, file, at }: Place, asked: Asked) {
  const [again, setAgain] = useState(0);
  const last = useRef<number | null>(null);
  const isAsked = useRef(false); // by the reader, not by a link: then the first match is shown
  const show = (line: FoundLine, { file: of }: Found) =>
    setQuery({ at: String(line.offset), of }, "replace");
  const search = useSearch(run.id, { chosen, file }, asked, again, (found) => {
    const [first] = found.matches;
    if (first && (isAsked.current || at == null)) show(first, found);
    isAsked.current = false;
  });
  const { found } = search;
  if (at != null) last.current = (file ?? found.file) === found.file ? at : null;
  const place = last.current;
  const step = async (by: 1 | -1) => {
    const known = nextMatch(found, place, by);
    if (known) return show(known, found);
    if (by < 0 || search.busy) return;
    const more = await search.more();
    const line = more && nextMatch(more, place, by);
    if (line) show(line, more);
  };
  return {
    search,
    current: matchAt(found, place),
    step: (by: 1 | -1) => void step(by),
    goTo: (line: FoundLine) => show(line, found),
    ask: (next: Asked) => {
      isAsked.current = true;
      setAgain((count) => count + 1);
      setQuery({
        grep: next.grep || null,
        case: next.ignoreCase ? "ignore" : null,
        context: next.context > 0 ? String(next.context) : null,
        ...(next.grep === "" && { at: null, of: null }),
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

interface Place {
  chosen: string | null; // null: the newest
  at: number | null; // null: the end
  file: string | null; // that the byte is of, whichever is the newest by now
}
function placeIn(query: URLSearchParams): Place {
  const offset = query.get("at");
  const at = offset != null && /^\d{1,15}$/.test(offset) ? Number(offset) : null;
  const chosen = query.get("file");
  return { chosen, at, file: (at == null ? null : query.get("of")) ?? chosen };
}

function BehindTheEnd({ size, at }: { size: number; at: number }) {
  return (
    <p class="nothing">
      This log has {show.bytes(size)}; byte {show.count(at)} is behind its end.{" "}
      <button type="button" onClick={() => setQuery({ at: null, of: null })}>
        Show the end
      </button>
    </p>
  );
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
      {shown != null && shown.pieces.length > 0 && <CopyShown box={using.box} />}
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
  const place = useRef<HTMLDivElement>(null);
  useKeptFocus(place, box); // of a button that shows the last of what there is
  return (
    <div ref={place}>
      <Extent shown={shown} at={at} />
      {begin(shown) > 0 && (
        <button type="button" class="quiet" aria-disabled={busy} onClick={around(log.earlier)}>
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
      {end(shown) < shown.size && (
        <button type="button" class="quiet" aria-disabled={busy} onClick={around(log.later)}>
          Show what comes after
        </button>
      )}
      {failure && (
        <p class="failure" role="alert">
          {show.withoutEscapes(failure)}
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
    </div>
  );
}

// A window that does not follow is told by the list of logs how far its own has come since.
function grown(shown: LogWindow | null, files: LogFile[]): LogWindow | null {
  const bytes = files.find(({ name }) => name === shown?.file)?.bytes ?? 0;
  return shown && bytes > shown.size ? { ...shown, size: bytes } : shown;
}

function Body({ files, ...part }: Parameters<typeof Part>[0] & { files: LogFile[] }) {
  const { shown, at } = part;
  if (shown.size === 0) return <Empty files={files} />;
  if (at != null && shown.pieces.length === 0) return <BehindTheEnd size={shown.size} at={at} />;
  return <Part {...part} />;
}

export function LogTab({ run }: { run: Run }) {
  const { query } = useRoute();
  const where = placeIn(query);
  const { file, at } = where;
  const asked = askedIn(query);
  const [paused, setPaused] = useState(false);
  const follows = at == null && !paused;
  const log = useLog(run, file, at, follows);
  const listed = useFiles(run);
  const hits = useHits(run, where, asked);
  const field = useRef<HTMLInputElement>(null);
  const box = useRef<HTMLPreElement>(null);
  const { health } = log;
  const shown = follows ? log.shown : grown(log.shown, listed?.files ?? []);

  const follow = () => {
    setPaused(follows);
    if (!follows) setQuery({ at: null, of: null });
  };
  const firstError = () => hits.ask({ ...asked, grep: kErrors, ignoreCase: true });
  useShortcuts([
    { keys: "/", does: "Search in the log", act: () => field.current?.select() },
    { keys: "f", does: "Follow the log, or pause", act: follow },
    { keys: "e", does: "First error of the log", act: firstError },
    { keys: "n", does: "Next line found", act: () => hits.step(1) },
    { keys: "N", does: "Line found before", act: () => hits.step(-1) },
  ]);
  const using = { run, file, log: { ...log, shown }, follows, onFollow: follow, box };
  return (
    <section class="logs" aria-label="Logs">
      <LogTools using={using} listed={listed} onFirstError={firstError} />
      <SearchForm
        asked={asked}
        field={field}
        onSearch={hits.ask}
        onLeave={() => (box.current ? box.current.focus() : field.current?.blur())}
      />
      <Hits
        search={hits.search}
        file={shown ? shown.file : hits.search.found.file}
        current={hits.current}
        onGo={hits.goTo}
        onNext={() => hits.step(1)}
        onPrevious={() => hits.step(-1)}
        onClose={() => {
          hits.ask({ grep: "", ignoreCase: false, context: 0 });
          field.current?.focus();
        }}
      />
      {health.refusal && (
        <ErrorPanel
          title="The log cannot be read"
          text={show.withoutEscapes(health.refusal.message)}
        />
      )}
      {!shown && !health.refusal && <p class="loading">Loading log…</p>}
      {shown && (
        <Body
          using={using}
          shown={shown}
          at={at}
          files={listed?.files ?? []}
          onPause={() => setPaused(true)}
        />
      )}
    </section>
  );
}
