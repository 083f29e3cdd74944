// From which step on a run learns differently than another (docs/why-different.md).
import { Refusal, getOnce } from "../base/request";
import type { Evidence } from "./evidence";

export interface ApartAt {
  step: number;
  loss: [number | null, number | null]; // null: not finite
  relative: number | null;
}
export interface LearningCause {
  kind: string;
  what: string;
  evidence: Evidence[];
}
export interface LearnedRun {
  run: string;
  damaged: number; // lines of its journals
  environment_fault: string | null; // why its environment cannot be read
}
export interface Learning {
  runs: LearnedRun[];
  common: number;
  equal: boolean;
  first: ApartAt | null;
  other_bits: ApartAt | null;
  beyond_rounding: ApartAt | null;
  last: ApartAt | null;
  rounding: number;
  known: boolean;
  causes: LearningCause[];
}
export type ToldLearning = { learning: Learning } | { why: string };

const kMilliseconds = 20_000; // for 16 MiB of journals

// Throws where there was no answer.
export async function learningOf(a: string, b: string, signal: AbortSignal): Promise<ToldLearning> {
  const path = `runs/${encodeURIComponent(b)}/learning?against=${encodeURIComponent(a)}`;
  try {
    return { learning: await getOnce<Learning>(path, signal, kMilliseconds) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { why: error.message };
  }
}
