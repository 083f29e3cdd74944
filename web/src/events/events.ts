import type { EventPage, RunEvent } from "../base/api";

// Kinds of events that a run may have, in words. What else is to be said is in the event's own.
const kNames = {
  "run.submitted": "Submitted",
  "run.found": "Found in the runs directory",
  "run.queued": "Queued",
  "run.starting": "Starting",
  "run.running": "Running",
  "run.stopping": "Stopping",
  "run.succeeded": "Succeeded",
  "run.stopped": "Stopped",
  "run.failed": "Failed",
  "run.cancelled": "Cancelled",
  "run.cancel_asked": "Cancel requested",
  "run.resume_asked": "Resume requested",
  "run.requeue_asked": "Requeue requested",
  "run.extend_asked": "Extension requested",
  "run.changed": "Settings changed",
  "run.labelled": "Tags or note changed",
  "run.archived": "Archived",
  "run.unarchived": "Taken out of the archive",
  "run.removed": "Removed",
  "run.target_reached": "Target reached",
  "launch.submitted": "Job or process started",
  "launch.limited": "Time limit of the job changed",
  "launch.limit_refused": "Time limit of the job not changed",
  "launch.ended": "Job or process ended",
  "attempt.started": "Attempt started",
  "attempt.ended": "Attempt ended",
  "attempt.warning": "Trainer warning",
  "attempt.batch_grown": "Batch grown",
  "attempt.alarm": "Unusual gradient or update",
  "attempt.loss_scale": "Loss scale changed",
  "attempt.corruption": "Silent corruption",
  "checkpoint.written": "Checkpoint written",
  "checkpoint.failed": "Checkpoint not written",
  "checkpoint.removed": "Checkpoint removed",
  "checkpoint.skipped": "Checkpoint skipped",
  "checkpoint.pinned": "Checkpoint pinned",
  "checkpoint.unpinned": "Checkpoint unpinned",
  "checkpoint.exported": "Checkpoint export requested",
  "checkpoint.export_removed": "Checkpoint export removed",
  "checkpoint.collected": "Old checkpoints removed",
  "plan.tried": "Gradient buckets compared",
  "plan.input": "Data loading chosen",
  "node.blamed": "Failure attributed to the node",
  "sweep.trial_failed": "Trial of a sweep failed",
};
export type NamedKind = keyof typeof kNames;

export function nameOf(kind: string): string {
  return Object.hasOwn(kNames, kind) ? kNames[kind as NamedKind] : kind;
}

// The newest events of a run, the newest first.
export interface Newest {
  events: RunEvent[];
  next: number; // what came after these is asked for with it
  more: boolean; // there are older ones
}

export function newest(page: EventPage): Newest {
  return { ...page, events: page.events.slice().reverse() };
}

// At most `room` of them stay.
export function withNewer(known: Newest, page: EventPage, room: number): Newest {
  const last = known.events[0]?.number ?? 0;
  const fresh = page.events.filter((event) => event.number > last).reverse();
  const all = [...fresh, ...known.events];
  const isSame = fresh.length === 0 && all.length <= room;
  return {
    events: isSame ? known.events : all.slice(0, room), // the same: nothing is drawn anew
    next: page.next,
    more: known.more || all.length > room,
  };
}

export function withOlder(known: Newest, page: EventPage): Newest {
  const oldest = known.events[known.events.length - 1]?.number ?? Infinity;
  const fresh = page.events.filter((event) => event.number < oldest).reverse();
  return { ...known, events: [...known.events, ...fresh], more: page.more };
}
