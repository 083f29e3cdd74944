// What the page of a run asks of the API beside what base/api.ts has.
import type { EventPage, Launch, Run } from "../base/api";
import { get, post, remove } from "../base/request";

export interface Waiting {
  category: string;
  sentence: string;
  action: string;
  clears: string; // "by itself", "perhaps", "never"
  expected_start: string | null; // Slurm's
  next_start: string | null; // the controller's own
}

export interface Explanation {
  state: string;
  summary: string;
  next: string;
  waiting: Waiting | null;
  failures_in_a_row: number;
  launches: (Launch & { job: string | null })[];
  avoided_nodes: { node: string; score: number; why: string }[];
}

export interface Removal {
  bytes: number;
  freed: { checkpoints: number; exports: number; logs: number; journal: number; other: number };
  files: number;
  pinned: string[];
  had_directory: boolean;
  left: string | null;
}

interface ArchivedCheckpoint {
  name: string;
  step: number;
  bytes: number;
  reasons: string[];
}
export interface Archival {
  archived: boolean;
  bytes: number;
  exports: number;
  removed: ArchivedCheckpoint[];
  kept: ArchivedCheckpoint[];
}

export interface Extension {
  steps?: number;
  target?: number | { value?: number; stop?: boolean };
}

const run = (id: string) => `runs/${encodeURIComponent(id)}`;

export const runApi = {
  explain: (id: string, signal: AbortSignal) => get<Explanation>(`${run(id)}/explain`, signal),
  requeues: (id: string, signal: AbortSignal) =>
    get<EventPage>(
      `events?run=${encodeURIComponent(id)}&kind=run.requeue_asked&limit=1000`,
      signal,
    ),
  requeue: (id: string) => post<Run>(`${run(id)}/requeue`),
  extend: (id: string, body: Extension) => post<Run>(`${run(id)}/extend`, body),
  archive: (id: string, isDry: boolean) =>
    post<Archival>(`${run(id)}/archive${isDry ? "?dry_run=true" : ""}`),
  remove: (id: string, asked: { isDry: boolean; pinnedToo: boolean }) => {
    const query = new URLSearchParams();
    if (asked.isDry) query.set("dry_run", "true");
    if (asked.pinnedToo) query.set("pinned_too", "true");
    const text = query.toString();
    return remove<Removal>(`${run(id)}${text && `?${text}`}`);
  },
};
