// The controller's clock: ages, ranges and "now" are told by it, as what happened is stamped by it.
// How far this browser's clock is off is taken from the `Date` of the answers, in whole seconds.
const kAgree = 2000; // ms; what an estimate may be off by
const kTold = 60_000; // ms; of which the reader is told

let offset = 0; // ms to add to this browser's time
const listeners = new Set<() => void>();

export const now = () => Date.now() + offset;

// An answer that was asked for and came at these times of this browser's clock.
export function noteDate(date: string | null, sent: number, came: number) {
  const stamped = Date.parse(date ?? "");
  if (Number.isNaN(stamped) || came < sent) return;
  const next = stamped + 500 - (sent + came) / 2;
  if (Math.abs(next - offset) <= kAgree + (came - sent) / 2) return;
  offset = Math.abs(next) <= kAgree ? 0 : next;
  for (const tell of listeners) tell();
}

// Milliseconds by which this browser's clock is ahead, or behind if negative; null: near enough.
export const clockError = () => (Math.abs(offset) > kTold ? -offset : null);

export function onClock(listener: () => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}
