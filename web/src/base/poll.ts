import { useEffect, useState } from "preact/hooks";
import { now as clockNow } from "./clock";
import { NotYet, Refusal, messageOf, trouble } from "./request";

// What the page knows about its connection to the controller.
export interface Health {
  lastData: number | null; // by the controller's clock, of the newest answer
  failure: string | null; // why the last attempt failed; null while all is well
  isAnswered?: boolean; // a proxy, or the controller while it starts, said so
  refusal: Refusal | null; // the controller answered no: polling goes on, slowly
  trouble: string | null; // why what it answers stands still
}

const kInitial: Health = { lastData: null, failure: null, refusal: null, trouble: null };
const kSlowestMilliseconds = 15_000;

// A newer answer alone is no reason to draw again: its time is read when the next one fails.
export function withData(old: Health, lastData: number, newTrouble: string | null): Health {
  const isNews =
    old.lastData == null || old.failure != null || old.refusal != null || old.trouble !== newTrouble;
  if (isNews) return { lastData, failure: null, refusal: null, trouble: newTrouble };
  old.lastData = lastData;
  return old;
}

export function pauseAfter(failures: number, interval: number): number {
  return Math.min(interval * 2 ** failures, Math.max(interval, kSlowestMilliseconds));
}

// Calls `task` every `interval` ms while the page is visible and `key` is not null; one call at a
// time. After a failure the pause doubles up to 15 s, and is never shorter than `interval`; whatever
// the task stored stays.
export function usePoll(
  key: string | null,
  interval: number,
  task: (signal: AbortSignal) => Promise<void>,
): Health {
  const [health, setHealth] = useState<Health>(kInitial);
  useEffect(() => {
    if (key == null) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let busy = false;
    let failures = 0;

    const tick = async () => {
      clearTimeout(timer);
      if (busy || document.hidden) return;
      busy = true;
      try {
        await task(stop.signal);
        failures = 0;
        if (!stop.signal.aborted) setHealth((old) => withData(old, clockNow(), trouble()));
      } catch (error) {
        if (stop.signal.aborted) return;
        failures += 1;
        if (error instanceof Refusal) {
          setHealth((old) => ({ ...old, failure: null, refusal: error, trouble: trouble() }));
        } else {
          const isAnswered = error instanceof NotYet;
          setHealth((old) => ({ ...old, failure: messageOf(error), isAnswered, refusal: null }));
        }
      } finally {
        busy = false;
      }
      if (stop.signal.aborted) return;
      timer = setTimeout(tick, pauseAfter(failures, interval));
    };
    const wake = () => {
      if (!document.hidden) void tick();
    };
    setHealth((old) => ({ ...old, failure: null, refusal: null }));
    document.addEventListener("visibilitychange", wake);
    window.addEventListener("online", wake);
    void tick();
    return () => {
      stop.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", wake);
      window.removeEventListener("online", wake);
    };
    // `task` closes over refs and the key only.
  }, [key, interval]);
  return health;
}

// One clock for all that shows the time; it stands while nobody looks.
const clocks = new Set<(now: number) => void>();
let ticking: ReturnType<typeof setInterval> | undefined;
function tellClocks() {
  if (document.hidden) return;
  const now = clockNow();
  for (const tell of clocks) tell(now);
}

// The controller's time, renewed every second while `active`; where `step` is more than that, when it is a multiple
// of so many milliseconds, so that a text of minutes is not drawn each second.
export function useNow(active: boolean, step = 1): number {
  const [now, setNow] = useState(clockNow);
  useEffect(() => {
    if (!active) return;
    const tell = (time: number) => setNow(time - (time % step));
    tell(clockNow());
    clocks.add(tell);
    ticking ??= setInterval(tellClocks, 1000);
    return () => {
      clocks.delete(tell);
      if (clocks.size > 0) return;
      clearInterval(ticking);
      ticking = undefined;
    };
  }, [active, step]);
  return now;
}
