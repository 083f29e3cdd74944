import type { RefObject } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import * as show from "../base/format";
import { plain } from "./ansi";
import type { Found } from "./found";
import type { FoundLine } from "./logs_api";
import type { Asked, UsedSearch } from "./use_search";

const kMostText = 400; // characters of a line in the list
const kContexts = [0, 2, 5, 20];

export function SearchForm({
  asked,
  field,
  onSearch,
  onLeave,
}: {
  asked: Asked;
  field: RefObject<HTMLInputElement | null>;
  onSearch: (asked: Asked) => void;
  onLeave: () => void; // Escape: back to the log
}) {
  const [typed, setTyped] = useState(asked);
  useEffect(() => setTyped(asked), [asked.grep, asked.ignoreCase, asked.context]);
  return (
    <form
      class="log-search"
      role="search"
      aria-label="In this log"
      onSubmit={(event) => {
        event.preventDefault();
        onSearch(typed);
      }}
    >
      <input
        ref={field}
        type="search"
        class="search"
        aria-label="Search the log by a regular expression"
        placeholder="Regular expression, as RE2 takes it (/)"
        spellcheck={false}
        autocomplete="off"
        value={typed.grep}
        onInput={(event) => setTyped({ ...typed, grep: event.currentTarget.value })}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.preventDefault();
          onLeave();
        }}
      />
      <label class="check">
        <input
          type="checkbox"
          checked={typed.ignoreCase}
          onChange={(event) => setTyped({ ...typed, ignoreCase: event.currentTarget.checked })}
        />
        Ignore case
      </label>
      <label class="check">
        Lines around
        <select
          value={String(typed.context)}
          onChange={(event) => setTyped({ ...typed, context: Number(event.currentTarget.value) })}
        >
          {kContexts.map((count) => (
            <option key={count} value={count}>
              {count}
            </option>
          ))}
        </select>
      </label>
      <button type="submit">Search</button>
    </form>
  );
}

function Line({
  line,
  isCurrent,
  onGo,
}: {
  line: FoundLine;
  isCurrent: boolean;
  onGo: (line: FoundLine) => void;
}) {
  const text = useMemo(() => plain(line.text), [line.text]);
  const cut = text.length > 2 * kMostText || Array.from(text).length > kMostText;
  const shown = cut ? Array.from(text.slice(0, 2 * kMostText)).slice(0, kMostText).join("") : text;
  const place = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isCurrent) place.current?.scrollIntoView({ block: "nearest" });
  }, [isCurrent]);
  return (
    <li ref={place} class={line.match ? "match" : "around"}>
      <button
        type="button"
        class="quiet"
        aria-label={`Go to line ${line.line}`}
        aria-current={isCurrent ? "true" : undefined}
        onClick={() => onGo(line)}
      >
        {show.count(line.line)}
      </button>
      <code>
        {shown}
        {cut && ` … ${show.count(text.length - shown.length)} more characters`}
      </code>
    </li>
  );
}

function summary(
  { found, busy, isDone, isFull }: UsedSearch,
  current: number,
  file: string | null,
): string {
  const scanned = show.bytes(found.scanned);
  if (!isDone) return busy ? "Searching…" : "";
  const count = found.matches.length;
  const time = new Date(found.at).toLocaleTimeString("en-GB"); // a log may grow behind it
  const other = found.file != null && found.file !== file;
  const end =
    (other ? `in ${show.withoutEscapes(found.file ?? "")}, ` : "") +
    (found.next == null ? `all of it searched at ${time}` : `${scanned} searched so far`);
  if (count === 0) return `No line matches; ${end}${busy ? "…" : ""}`;
  const at = current >= 0 ? `${show.count(current + 1)} of ` : "";
  const more = found.next == null ? "" : " or more";
  const lines = `${show.count(count)}${more} matching ${count === 1 ? "line" : "lines"}`;
  return `${at}${lines}; ${end}${isFull ? "; no more are listed here" : ""}${busy ? "…" : ""}`;
}

function listOf(
  { lines, matches }: Found,
  now: FoundLine | undefined,
  onGo: (line: FoundLine) => void,
) {
  if (matches.length === 0) return null;
  const hasContext = lines.length > matches.length;
  let last = 0;
  return (
    <ol class="hits" tabIndex={0} aria-label="Lines that were found">
      {lines.map((line) => {
        const gap = hasContext && last > 0 && line.line > last + 1;
        last = line.line;
        return [
          gap && (
            <li key={`gap ${line.line}`} class="gap" aria-hidden="true">
              …
            </li>
          ),
          <Line key={line.offset} line={line} isCurrent={line === now} onGo={onGo} />,
        ];
      })}
    </ol>
  );
}

export function Hits({
  search,
  file,
  current,
  onGo,
  onNext,
  onPrevious,
  onClose,
}: {
  search: UsedSearch;
  file: string | null; // that is shown
  current: number; // of the matches; −1: none
  onGo: (line: FoundLine) => void;
  onNext: () => void;
  onPrevious: () => void;
  onClose: () => void;
}) {
  const { found, busy, failure, isDone } = search;
  const now = found.matches[current];
  const go = useRef(onGo);
  go.current = onGo;
  const goTo = useRef((line: FoundLine) => go.current(line));
  // Thousands of lines, of which a log that is followed changes none.
  const list = useMemo(() => listOf(found, now, goTo.current), [found.lines, now]);
  return (
    <>
      <div role="status" class="hits-head">
        {(busy || isDone) && !failure && <span>{summary(search, current, file)}</span>}
      </div>
      {failure && (
        <p class="failure" role="alert">
          Not searched: {show.withoutEscapes(failure)}
        </p>
      )}
      {list}
      {(isDone || failure) && (
        <div class="hits-tools">
          <button type="button" disabled={found.matches.length === 0} onClick={onPrevious}>
            Previous <kbd>N</kbd>
          </button>
          <button type="button" disabled={found.matches.length === 0} onClick={onNext}>
            Next <kbd>n</kbd>
          </button>
          {found.next != null && !search.isFull && (
            <button type="button" aria-disabled={busy} onClick={() => void search.more()}>
              {busy ? "Searching…" : "Search on"}
            </button>
          )}
          <button type="button" class="quiet" onClick={onClose}>
            Close the search
          </button>
        </div>
      )}
    </>
  );
}
