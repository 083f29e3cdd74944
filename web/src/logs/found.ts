// What a search has found, and the matches beside a place in the log.
import type { FoundLine } from "./logs_api";

export interface Found {
  lines: FoundLine[];
  matches: FoundLine[];
  scanned: number; // bytes
  next: string | null; // where to go on
  file: string | null; // that it is in, also when another has become the newest
  at: number; // by the controller's clock, of the newest answer
}

// The match at this offset, or, of a line around one, the match before it; −1: neither.
export function matchAt({ lines, matches }: Found, at: number | null): number {
  if (at == null || lines.every((line) => line.offset !== at)) return -1;
  return matches.filter((match) => match.offset <= at).length - 1;
}

// The next one behind or before a place, which may be no match's; without one the first.
export function nextMatch(
  { matches }: Found,
  at: number | null,
  by: 1 | -1,
): FoundLine | undefined {
  if (at == null) return by > 0 ? matches[0] : undefined;
  if (by > 0) return matches.find((match) => match.offset > at);
  return matches.filter((match) => match.offset < at).pop();
}
