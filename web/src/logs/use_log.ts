import { useReducer, useRef } from "preact/hooks";
import type { Run } from "../base/api";
import { hasEnded } from "../base/api";
import type { Health } from "../base/poll";
import { usePoll } from "../base/poll";
import type { LogWindow } from "./log_window";
import { append, begin, end, isFarBehind, isOther, open, prepend } from "./log_window";
import { logApi } from "./logs_api";

const kMostLines = 100_000; // of the end: what the API gives
const kMostAnswers = 8; // a round; what grows faster is caught up with in the next
const kAround = 64 * 1024; // bytes before and behind a place that was asked for
const kMore = 128 * 1024;

export interface UsedLog {
  shown: LogWindow | null;
  health: Health;
  earlier: () => Promise<void>;
  later: () => Promise<void>;
}

async function opened(
  run: string,
  file: string | null,
  at: number | null, // null: the end
  signal: AbortSignal,
): Promise<LogWindow> {
  if (at == null) {
    const part = await logApi.part(run, { file, tail: kMostLines }, signal);
    return open([part], 0, null);
  }
  const from = Math.max(0, at - kAround);
  const behind = await logApi.part(run, { file, offset: at, limit: kAround }, signal);
  if (at - from < 4) return open([behind], at, at); // the API's least limit
  const before = await logApi.part(run, { file, offset: from, limit: at - from }, signal);
  return open([before, behind], from, at);
}

// The end of a log, followed while `follows`; or what is around the offset `at`.
export function useLog(
  run: Run,
  file: string | null,
  at: number | null,
  follows: boolean,
): UsedLog {
  const key = `${run.id} ${file} ${at} ${follows}`;
  const place = `${run.id} ${file} ${at}`;
  const held = useRef<{ place: string; shown: LogWindow } | null>(null);
  const [, draw] = useReducer((count: number) => count + 1, 0);
  const keep = (shown: LogWindow) => {
    held.current = { place, shown };
    draw(undefined);
  };
  const shown = held.current?.place === place ? held.current.shown : null;
  const never = useRef(new AbortController().signal);

  const follow = async (signal: AbortSignal) => {
    for (let answer = 0; answer < kMostAnswers; ++answer) {
      const now = held.current?.shown;
      if (!now) return;
      const part = await logApi.part(run.id, { file, offset: end(now) }, signal);
      if (isOther(now, part) || isFarBehind(now, part)) {
        return keep(await opened(run.id, file, null, signal));
      }
      const next = append(now, part);
      if (part.text === "") {
        if (next.size !== now.size) keep(next);
        return;
      }
      keep(next);
    }
  };
  const health = usePoll(key, hasEnded(run) ? 5000 : 1000, async (signal) => {
    if (held.current?.place !== place) keep(await opened(run.id, file, at, signal));
    if (follows && at == null) await follow(signal);
  });

  // What is beside the window is of the file that is shown, whichever is the newest by now.
  const beside = async (offset: number, limit: number) => {
    const asked = { file: shown?.file ?? file, offset, limit };
    const part = await logApi.part(run.id, asked, never.current);
    const now = held.current?.place === place ? held.current.shown : null;
    return { part, now: now?.file === (part.file ?? null) ? now : null };
  };
  const earlier = async () => {
    if (!shown) return;
    const last = begin(shown);
    const from = Math.max(0, last - kMore);
    const { part, now } = await beside(from, Math.max(4, last - from));
    if (!now || begin(now) !== last) return;
    // The API gives no less than four bytes.
    const text = last - from < 4 ? part.text.slice(0, last - from) : part.text;
    keep(prepend(now, { ...part, text, next: last }));
  };
  const later = async () => {
    if (!shown) return;
    const first = end(shown);
    const { part, now } = await beside(first, kMore);
    if (!now || end(now) !== first) return;
    if (!isOther(now, part)) return keep(append(now, part));
    const anew = await opened(run.id, now.file, at, never.current); // it was cut
    if (held.current?.place === place) keep(anew);
  };
  return { shown, health, earlier, later };
}
