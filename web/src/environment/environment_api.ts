// What an attempt was built of and ran on (docs/formats/environment.md).
import { Refusal, getOnce } from "../base/request";

// In the order of the file.
export const kSections = [
  "build",
  "machine",
  "devices",
  "fabric",
  "variables",
  "numerics",
  "randomness",
  "data",
  "model",
  "configuration",
] as const;
export type SectionName = (typeof kSections)[number];

export type Section = { digest: string } & Record<string, unknown>;
export type Environment = Record<SectionName, Section> & {
  format: number;
  fingerprint: string;
  attempt?: Record<string, unknown>;
  training?: Record<string, unknown>;
};

// none: there is none, or none yet; damaged: there is one, and it cannot be read; away: nobody knows
export type Told = { environment: Environment } | { kind: "none" | "damaged" | "away"; why: string };

const kMilliseconds = 20_000; // for up to 1 MiB

// Of that attempt, or of the newest. Throws where there was no answer.
export async function environmentOf(
  run: string,
  attempt: number | null,
  signal: AbortSignal,
): Promise<Told> {
  const which = attempt == null ? "" : `?attempt=${attempt}`;
  const path = `runs/${encodeURIComponent(run)}/environment${which}`;
  try {
    return { environment: await getOnce<Environment>(path, signal, kMilliseconds) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { kind: error.status === 404 ? "none" : "damaged", why: error.message };
  }
}
