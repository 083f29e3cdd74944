import { useEffect, useState } from "preact/hooks";
import { Refusal, trouble } from "./request";

// What the page knows about its connection to the controller.
export interface Health {
  lastData: number | null; // Date.now() of the newest answer
  failure: string | null; // why the last attempt failed; null while all is well
  refusal: Refusal | null; // the controller answered no: polling goes on, slowly
  trouble: string | null; // why what it answers stands still
}

const kInitial: Health = { lastData: null, failure: null, refusal: null, trouble: null };
const kSlowestMilliseconds = 15_000;

// Calls `task` every `interval` ms while the page is visible and `key` is not null; one call at a
// time. After a failure the pause doubles up to 15 s; whatever the task stored stays.
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
        if (!stop.signal.aborted) {
          setHealth({ lastData: Date.now(), failure: null, refusal: null, trouble: trouble() });
        }
      } catch (error) {
        if (stop.signal.aborted) return;
        failures += 1;
        if (error instanceof Refusal) {
          setHealth((old) => ({ ...old, failure: null, refusal: error, trouble: trouble() }));
        } else {
          const failure = error instanceof Error ? error.message : String(error);
          setHealth((old) => ({ ...old, failure, refusal: null }));
        }
      } finally {
        busy = false;
      }
      if (stop.signal.aborted) return;
      timer = setTimeout(tick, Math.min(interval * 2 ** failures, kSlowestMilliseconds));
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

// The time, renewed every second while `active`.
export function useNow(active: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!active) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [active]);
  return now;
}
