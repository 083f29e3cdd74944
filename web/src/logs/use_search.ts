import { useEffect, useRef, useState } from "preact/hooks";
import { now } from "../base/clock";
import { messageOf } from "../base/request";
import type { Found } from "./found";
import { logApi } from "./logs_api";

const kPageMatches = 100;
const kMostMatches = 2000; // on the page
const kMostLines = 10_000; // likewise, with those around
const kMostAnswers = 16; // in which nothing may be found, of about 16 MiB each

export interface Asked {
  grep: string; // "" asks for nothing
  ignoreCase: boolean;
  context: number;
}
const kNone: Found = { lines: [], matches: [], scanned: 0, next: null, file: null, at: 0 };

export interface UsedSearch {
  found: Found;
  isDone: boolean; // something was asked for, and at least one answer is here
  busy: boolean;
  failure: string | null;
  isFull: boolean;
  more: () => Promise<Found | null>;
}

function askPage(
  run: string,
  file: string | null,
  { grep, ignoreCase, context }: Asked,
  from: string | null,
  signal: AbortSignal,
) {
  const ignore_case = ignoreCase ? "true" : null;
  const asked = { file, grep, ignore_case, context, limit: kPageMatches, from } as const;
  return logApi.search(run, asked, signal);
}

// Searches one log on the server, page by page; anew when another is chosen, or `again` changes.
export function useSearch(
  run: string,
  { chosen, file }: { chosen: string | null; file: string | null }, // null: the newest
  asked: Asked,
  again: number,
  onFirst: (found: Found) => void,
): UsedSearch {
  const key = JSON.stringify([run, chosen, asked, again]);
  const [state, setState] = useState({ key: "", found: kNone, busy: false, failure: "" });
  const stop = useRef(new AbortController());
  const first = useRef(onFirst);
  first.current = onFirst;

  const read = async (from: Found, signal: AbortSignal): Promise<Found | null> => {
    setState({ key, found: from, busy: true, failure: "" });
    let found = from;
    try {
      for (let answer = 0; answer < kMostAnswers; ++answer) {
        const page = await askPage(run, found.file ?? file, asked, found.next, signal);
        const lines = [...found.lines, ...page.lines];
        const matches = lines.filter((line) => line.match);
        const isNew = matches.length > found.matches.length;
        const scanned = found.scanned + page.scanned_bytes;
        found = { lines, matches, scanned, next: page.next, file: page.file, at: now() };
        if (isNew || page.next == null) break;
        setState({ key, found, busy: true, failure: "" });
      }
      setState({ key, found, busy: false, failure: "" });
      return found;
    } catch (error) {
      if (!signal.aborted) setState({ key, found, busy: false, failure: messageOf(error) });
      return null;
    }
  };
  useEffect(() => {
    const control = new AbortController();
    stop.current = control;
    if (asked.grep === "") setState({ key, found: kNone, busy: false, failure: "" });
    else {
      void read(kNone, control.signal).then((found) => {
        if (found) first.current(found);
      });
    }
    return () => control.abort();
  }, [key]);

  const isNow = state.key === key;
  const found = isNow ? state.found : kNone;
  const isFull = found.matches.length >= kMostMatches || found.lines.length >= kMostLines;
  const more = async () => {
    if (!isNow || state.busy || found.next == null || isFull) return null;
    return read(found, stop.current.signal);
  };
  return {
    found,
    isDone: isNow && asked.grep !== "" && (!state.busy || found.scanned > 0),
    busy: isNow && state.busy,
    failure: isNow && state.failure !== "" ? state.failure : null,
    isFull,
    more,
  };
}
