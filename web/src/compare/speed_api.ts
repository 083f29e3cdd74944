// Why a sample takes a run longer than another, or less (docs/why-slower.md).
import { Refusal, getOnce } from "../base/request";
import type { Evidence } from "./evidence";

export interface SpeedAttempt {
  run: string;
  attempt: number;
  first_step: number;
  last_step: number;
  samples_per_second: number;
}
export interface SpeedPart {
  part: string;
  seconds_per_sample: [number, number];
  difference: number;
}
export interface SpeedCause {
  part: string;
  seconds_per_sample: number;
  what: string;
  evidence: Evidence[];
}
export interface Speed {
  attempts: [SpeedAttempt, SpeedAttempt];
  seconds_per_sample: [number, number];
  difference: number;
  equally_fast: boolean;
  parts: SpeedPart[];
  causes: SpeedCause[];
}
export type ToldSpeed = { speed: Speed } | { why: string };

const kMilliseconds = 20_000; // for 16 MiB of journals

// Throws where there was no answer.
export async function speedOf(a: string, b: string, signal: AbortSignal): Promise<ToldSpeed> {
  const path = `runs/${encodeURIComponent(b)}/speed?against=${encodeURIComponent(a)}`;
  try {
    return { speed: await getOnce<Speed>(path, signal, kMilliseconds) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { why: error.message };
  }
}
