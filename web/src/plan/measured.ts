// What was predicted beside what was measured, and which way a call of some size goes. Nothing here
// draws.
import type { PlannedBucket, PlannedStep, Timeline, TunedRange } from "../base/api";
import { difference } from "./plan";

interface Pair {
  index: number;
  bytes: number;
  predicted: { start: number; end: number };
  measured: { start: number; end: number };
  change: number | null; // of the reduction's length, as a fraction of the predicted one
}

export interface Comparison {
  pairs: Pair[];
  predictedSum: number; // of the reductions' lengths, of the buckets that are compared
  measuredSum: number;
  median: number | null; // of the lengths' differences, without their signs
  span: number; // nothing lies behind it
}

// Whether the step was cut in another way than the plan has it: the trial may have as many buckets
// of other sizes.
export function isOtherCut(step: PlannedStep, { bucket_count, buckets }: Timeline): boolean {
  return (
    bucket_count !== step.buckets.length ||
    buckets.some(([index, bytes]) => bytes != null && bytes !== step.buckets[index]?.bytes)
  );
}

// Bucket by bucket; null where the step was cut otherwise or tells no times.
export function compare(step: PlannedStep, timeline: Timeline): Comparison | null {
  if (isOtherCut(step, timeline)) return null;
  const pairs = timeline.buckets.flatMap(([index, , launched, finished]): Pair[] => {
    const bucket = step.buckets[index];
    if (!bucket || launched == null || finished == null) return [];
    return [
      {
        index,
        bytes: bucket.bytes,
        predicted: { start: bucket.start_seconds, end: bucket.end_seconds },
        measured: { start: launched, end: finished },
        change: difference(finished - launched, bucket.end_seconds - bucket.start_seconds),
      },
    ];
  });
  if (pairs.length === 0) return null;
  const length = ({ start, end }: { start: number; end: number }) => end - start;
  const changes = pairs
    .flatMap(({ change }) => (change == null ? [] : [Math.abs(change)]))
    .sort((a, b) => a - b);
  const ends = pairs.flatMap(({ predicted, measured }) => [predicted.end, measured.end]);
  return {
    pairs,
    predictedSum: pairs.reduce((sum, { predicted }) => sum + length(predicted), 0),
    measuredSum: pairs.reduce((sum, { measured }) => sum + length(measured), 0),
    median: changes[Math.floor((changes.length - 1) / 2)] ?? null,
    span: ends.reduce((most, end) => Math.max(most, end), Math.max(step.compute_seconds, 0)),
  };
}

// What NCCL is told for a call of so many bytes; null: nothing, it chooses.
export function wayOf(ranges: TunedRange[], collective: string, bytes: number): TunedRange | null {
  return (
    ranges.find(
      (range) =>
        range.collective === collective &&
        bytes >= range.from_bytes &&
        (range.to_bytes == null || bytes < range.to_bytes),
    ) ?? null
  );
}

export interface Way {
  buckets: number;
  least: number; // bytes
  most: number;
  range: TunedRange | null;
}

// The plan's buckets by the way that their calls go, in the order of size.
export function waysOf(ranges: TunedRange[], collective: string, buckets: PlannedBucket[]): Way[] {
  const ways: Way[] = [];
  for (const { bytes } of [...buckets].sort((a, b) => a.bytes - b.bytes)) {
    const range = wayOf(ranges, collective, bytes);
    const newest = ways[ways.length - 1];
    if (newest && newest.range === range) {
      newest.buckets += 1;
      newest.most = bytes;
    } else {
      ways.push({ buckets: 1, least: bytes, most: bytes, range });
    }
  }
  return ways;
}

const kLeastBytes = 4096;
const kMostBytes = 2 ** 30;

// Where sizes lie on an axis by their logarithm, as a share of its length.
export function sizeAxis(ranges: TunedRange[], buckets: { bytes: number }[]) {
  const sizes = [
    ...ranges.flatMap((range) => [range.from_bytes, range.to_bytes ?? 0]),
    ...buckets.map(({ bytes }) => bytes),
  ].filter((size) => size > 0 && Number.isFinite(size) && size < 2 ** 50);
  const least = sizes.reduce((a, b) => Math.min(a, b), kLeastBytes);
  const most = sizes.reduce((a, b) => Math.max(a, b * 2), kMostBytes);
  const [low, high] = [Math.log2(Math.max(1, least)), Math.log2(most)];
  const at = (bytes: number) =>
    Math.min(1, Math.max(0, (Math.log2(Math.max(1, bytes)) - low) / (high - low)));
  const ticks: number[] = [];
  for (let power = 3; power <= 15; power += 1) {
    const size = 10 ** power;
    if (size >= least && size <= most) ticks.push(size);
  }
  return { at, ticks };
}
