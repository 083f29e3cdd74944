// Calls about logs, and their answers: docs/api.md is the contract.
import type { Log } from "../base/api";
import { get } from "../base/request";

export interface LogPart extends Log {
  // Absent in answers of older controllers.
  file?: string | null;
  offset?: number;
  size?: number;
  begins_in_line?: boolean;
  ends_in_line?: boolean;
}

export interface LogFile {
  name: string;
  kind: string; // process, ranks, script, stacks, attempt, hang
  launch: number | null;
  attempt: number | null;
  job: string | null;
  restart: number | null;
  rank: number | null;
  bytes: number;
  modified_at: string | null;
}

export interface FoundLine {
  line: number;
  offset: number; // of the file
  match: boolean; // or it is around one that does
  text: string;
}
export interface SearchPage {
  file: string | null;
  lines: FoundLine[];
  scanned_bytes: number;
  next: string | null;
}

const of = (run: string) => `runs/${encodeURIComponent(run)}/logs`;
const query = (words: Record<string, string | number | null>) =>
  new URLSearchParams(
    Object.entries(words).flatMap(([key, value]) =>
      value == null || value === "" ? [] : [[key, String(value)]],
    ),
  ).toString();

export const logPath = (run: string, file: string | null) =>
  `${of(run)}/download${file == null ? "" : `?${query({ file })}`}`;

export const logApi = {
  part: (
    run: string,
    asked: { file: string | null; offset?: number; limit?: number; tail?: number },
    signal: AbortSignal,
  ) => get<LogPart>(`${of(run)}?${query(asked)}`, signal),
  files: (run: string, signal: AbortSignal) =>
    get<{ files: LogFile[]; more: boolean }>(`${of(run)}/files`, signal),
  search: (
    run: string,
    asked: {
      file: string | null;
      grep: string;
      ignore_case: "true" | null;
      context: number;
      limit: number;
      from: string | null;
    },
    signal: AbortSignal,
  ) => get<SearchPage>(`${of(run)}/search?${query(asked)}`, signal),
};
