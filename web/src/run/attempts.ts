// What is known of a run's attempts, and of which attempt a row is.
import { useState } from "preact/hooks";
import type { AttemptRow, Attempts, Run, RunEvent } from "../base/api";
import { api, hasEnded } from "../base/api";
import type { Health } from "../base/poll";
import { usePoll } from "../base/poll";
import { runApi } from "./run_api";
import { moment } from "./strip";

const kNobody: RunEvent[] = [];

export interface ToldAttempts {
  told: Attempts | null;
  requeues: RunEvent[];
  health: Health;
}

export function useAttempts(run: Run): ToldAttempts {
  const [told, setTold] = useState<Attempts | null>(null);
  const [requeues, setRequeues] = useState<RunEvent[]>(kNobody);
  // Asked again at once where the run says that something has changed.
  const key = `${run.id} ${run.attempts} ${run.state}`;
  const health = usePoll(key, hasEnded(run) ? 60_000 : 10_000, async (signal) => {
    const [attempts, events] = await Promise.all([
      api.attempts(run.id, signal),
      run.attempts > 1 || run.state === "queued" ? runApi.requeues(run.id, signal) : null,
    ]);
    setTold(attempts);
    setRequeues(events?.events ?? kNobody);
  });
  return { told, requeues, health };
}

type Row = readonly [step: number, seconds: number, ...rest: unknown[]];

export interface Place {
  attempt: number | null; // null: not known
  again: boolean; // trained again since
}

// Of each row. What a row said of itself when it came may have changed since, so that what is trained
// later counts: the rows behind it, those of `later` and the begins of attempts.
export function placesOf<R extends Row>(
  rows: R[],
  { run, attempts, later = [], said }: {
    run: Pick<Run, "started_at">;
    attempts: AttemptRow[];
    later?: Row[]; // steps, where the rows are evaluations
    said: (row: R) => boolean;
  },
): Place[] {
  const first = moment(run.started_at);
  const begun = attempts
    .flatMap((one) => {
      const at = moment(one.started_at);
      return at == null || first == null ? [] : [{ ...one, at: at - first }];
    })
    .sort((a, b) => a.at - b.at);
  const places: Place[] = [];
  let least = Infinity;
  let [step, attempt] = [later.length - 1, begun.length - 1];
  for (let i = rows.length - 1; i >= 0; i -= 1) {
    const row = rows[i];
    if (!row) continue;
    for (let one = later[step]; one && one[1] > row[1]; one = later[--step]) {
      least = Math.min(least, one[0]);
    }
    for (let one = begun[attempt]; one && one.at > row[1]; one = begun[--attempt]) {
      least = Math.min(least, one.first_step + 1);
    }
    places.push({ attempt: begun[attempt]?.attempt ?? null, again: said(row) || row[0] >= least });
    least = Math.min(least, row[0]);
  }
  return places.reverse();
}
