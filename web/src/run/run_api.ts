// What the page of a run asks of the API beside what base/api.ts has.
import type { EventPage, Launch, Run } from "../base/api";
import { get, post, postLong, remove } from "../base/request";

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
  exports: number; // bytes of them
  removed: ArchivedCheckpoint[];
  kept: ArchivedCheckpoint[];
}

export interface Extension {
  steps?: number;
  target?: number | { value?: number; stop?: boolean };
}

const kLong = 75_000; // ms; the controller reads and removes files for up to a minute
const run = (id: string) => `runs/${encodeURIComponent(id)}`;

export const runApi = {
  explain: (id: string, signal: AbortSignal) => get<Explanation>(`${run(id)}/explain`, signal),
  requeues: (id: string, signal: AbortSignal) =>
    get<EventPage>(
      `events?run=${encodeURIComponent(id)}&kind=run.requeue_asked&limit=1000`,
      signal,
    ),
  cancel: (id: string, key: string) => post<Run>(`${run(id)}/cancel`, undefined, key),
  resume: (id: string, key: string) => post<Run>(`${run(id)}/resume`, undefined, key),
  requeue: (id: string, key: string) => post<Run>(`${run(id)}/requeue`, undefined, key),
  extend: (id: string, body: Extension, key: string) =>
    post<Run>(`${run(id)}/extend`, body, key),
  previewArchival: (id: string) =>
    postLong<Archival>(`${run(id)}/archive?dry_run=true`, { milliseconds: kLong }),
  archive: (id: string, key: string) =>
    postLong<Archival>(`${run(id)}/archive`, { key, milliseconds: kLong }),
  previewRemoval: (id: string, pinnedToo: boolean) =>
    remove<Removal>(`${run(id)}?dry_run=true${pinnedToo ? "&pinned_too=true" : ""}`, {
      milliseconds: kLong,
    }),
  remove: (id: string, { pinnedToo, key }: { pinnedToo: boolean; key: string }) =>
    remove<Removal>(`${run(id)}${pinnedToo ? "?pinned_too=true" : ""}`, {
      key,
      milliseconds: kLong,
    }),
};
