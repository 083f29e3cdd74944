import { useEffect, useRef, useState } from "preact/hooks";
import { Refusal, messageOf } from "../base/request";
import { keyIn } from "./run_file";
import type { Preview, Submission } from "./submit_api";
import { submissions } from "./submit_api";

export interface Problem {
  message: string;
  key: string | null; // of the run file
  parameter: string | null; // "after", "tags"
}

// What the controller says to a submission without making it.
export interface Checked {
  of: Submission;
  preview: Preview | null;
  problem: Problem | null;
}

const kPauseMilliseconds = 300; // of somebody who types
const kAgainMilliseconds = 2000; // where no answer came

export const sameSubmission = (a: Submission, b: Submission) =>
  a.text === b.text && a.after === b.after && a.tags === b.tags;

const pause = (milliseconds: number) => new Promise((done) => setTimeout(done, milliseconds));

export function problemOf(error: Refusal): Problem {
  const { message, key, parameter } = error;
  return { message, key: key ?? keyIn(message), parameter };
}

async function ask(what: Submission, signal: AbortSignal): Promise<Checked> {
  try {
    return { of: what, preview: await submissions.preview(what, signal), problem: null };
  } catch (error) {
    if (!(error instanceof Refusal) || error.status === 401) throw error;
    return { of: what, preview: null, problem: problemOf(error) };
  }
}

// Asks what the controller says to this, a moment after the last change, once at a time.
export function useCheck(what: Submission, active: boolean) {
  const [newest, setNewest] = useState<Checked | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const wanted = useRef(what);
  wanted.current = what;
  const running = useRef<Promise<void> | null>(null);
  const done = useRef<Checked | null>(null);
  const [stop] = useState(() => new AbortController());

  const isDone = () => done.current != null && sameSubmission(done.current.of, wanted.current);
  const work = async () => {
    while (!stop.signal.aborted && !isDone()) {
      try {
        done.current = await ask(wanted.current, stop.signal);
        if (stop.signal.aborted) return;
        setNewest(done.current);
        setFailure(null);
        if (!isDone()) await pause(kPauseMilliseconds);
      } catch (error) {
        if (stop.signal.aborted) return;
        setFailure(messageOf(error));
        await pause(kAgainMilliseconds);
        while (document.hidden && !stop.signal.aborted) await pause(kAgainMilliseconds);
      }
    }
  };
  const start = () => {
    running.current ??= work().finally(() => (running.current = null));
    return running.current;
  };
  useEffect(() => {
    if (!active) return;
    const timer = setTimeout(start, kPauseMilliseconds);
    return () => clearTimeout(timer);
  }, [what.text, what.after, what.tags, active]);
  useEffect(() => () => stop.abort(), []);

  const current = newest != null && sameSubmission(newest.of, what);
  return { newest, current, failure };
}
