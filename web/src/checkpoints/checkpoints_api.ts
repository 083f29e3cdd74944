// Calls about checkpoints, and their answers: docs/api.md is the contract.
import type { Checkpoint, Run } from "../base/api";
import { get, messageOf, post, postLong, Refusal, remove } from "../base/request";

export interface CheckpointRow extends Checkpoint {
  // What the directory says; absent when it knows nothing of it.
  condition?: string; // valid, unfinished, damaged, unreadable, removed
  reason?: string; // when not valid
  shards?: number | null;
  metric?: string;
  value?: number | null; // of an evaluation at this very step
}

interface CheckpointRows {
  checkpoints: CheckpointRow[];
  trouble?: string; // why the directory cannot be read
}

export interface Tensor {
  name: string;
  dtype: string;
  shape: number[];
  bytes: number;
}
interface StoredFile {
  bytes?: number;
  digest?: string;
  tensors?: Tensor[] | null;
  error?: string;
}
export interface CheckpointDetails {
  step: number;
  name: string;
  path: string;
  condition: string;
  reason: string;
  bytes: number | null;
  metric: string;
  value: number | null;
  manifest: Record<string, unknown> | null;
  files: Record<string, StoredFile>;
}

export interface Verification {
  name: string;
  step: number;
  good: boolean;
  bytes: number;
  seconds: number;
  message: string;
}

interface Named {
  name: string;
  step: number;
  reasons: string[];
}
export interface Cleanup {
  dry_run: boolean;
  policy: Record<string, unknown>;
  removed: Named[];
  kept: Named[];
}

export const kModels = [
  "pretraining",
  "encoder",
  "question-answering",
  "sequence-classification",
] as const;
export type Model = (typeof kModels)[number];
export interface Export {
  name: string;
  state: "running" | "done" | "failed";
  path: string;
  files: { name: string; bytes: number; digest: string | null }[];
  message: string;
}

export interface ForkBody {
  checkpoint: string;
  name?: string;
  changes?: Record<string, unknown>;
}

export const kMostRead = 256_000_000; // bytes of a checkpoint; above, the API names the command
const kReadMilliseconds = 300_000; // for so many, perhaps from a slow file system
const kCopyMilliseconds = 75_000; // a minute, and what 20 MB/s need
const kCopyBytesPerMillisecond = 20_000;

const of = (run: string) => `runs/${encodeURIComponent(run)}/checkpoints`;
export const checkpointPath = (run: string, name: string) =>
  `${of(run)}/${encodeURIComponent(name)}`;

export const checkpointApi = {
  rows: (run: string, signal: AbortSignal) => get<CheckpointRows>(of(run), signal),
  details: (run: string, name: string, signal: AbortSignal) =>
    get<CheckpointDetails>(checkpointPath(run, name), signal),
  verify: (run: string, name: string) =>
    postLong<Verification>(`${checkpointPath(run, name)}/verify`, {
      milliseconds: kReadMilliseconds,
    }),
  pin: (run: string, name: string, reason: string) =>
    post<CheckpointRow>(`${checkpointPath(run, name)}/pin`, { reason }),
  unpin: (run: string, name: string) =>
    post<CheckpointRow>(`${checkpointPath(run, name)}/unpin`),
  cleanUp: (run: string, how: "preview" | "remove") =>
    postLong<Cleanup>(`${of(run)}/gc${how === "preview" ? "?dry_run=true" : ""}`, {
      milliseconds: kReadMilliseconds,
    }),
  beginExport: (run: string, name: string, body: { for: Model; with_optimizer: boolean }) =>
    post<Export>(`${checkpointPath(run, name)}/export`, body),
  export: (run: string, name: string, signal: AbortSignal) =>
    get<Export>(`${checkpointPath(run, name)}/export`, signal),
  removeExport: (run: string, name: string) =>
    remove<{ bytes: number }>(`${checkpointPath(run, name)}/export`),
  fork: (run: string, body: ForkBody, key: string, bytes: number) =>
    postLong<Run>(`runs/${encodeURIComponent(run)}/fork`, {
      body,
      key,
      milliseconds: kCopyMilliseconds + bytes / kCopyBytesPerMillisecond,
    }),
};

// What was asked for, or why not. Where the controller did not say no, it may be done all the same.
export async function doing<T>(deed: string, asked: Promise<T>): Promise<T> {
  try {
    return await asked;
  } catch (error) {
    const isSure = error instanceof Refusal;
    throw new Error(`${isSure ? "Not" : "Perhaps not"} ${deed}: ${messageOf(error)}`);
  }
}
