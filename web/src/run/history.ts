import type {
  Checkpoint,
  CheckpointRow,
  EvaluationRow,
  Metrics,
  Prediction,
  RankShares,
  StepRow,
  Timeline,
} from "../base/api";

// The series of one run as the page keeps them: what the cursor delivered, in order of time.
export interface History {
  cursor: number;
  steps: StepRow[];
  evaluations: EvaluationRow[];
  checkpoints: CheckpointRow[];
  timeline: Timeline | null; // of the newest step
  shares: RankShares | null; // of a newest step
  prediction: Prediction | null;
  resolution: number; // seconds of which a row is the mean, of long ago; 0: each is a step's own
}

export function emptyHistory(): History {
  return {
    cursor: 0,
    steps: [],
    evaluations: [],
    checkpoints: [],
    timeline: null,
    shares: null,
    prediction: null,
    resolution: 0,
  };
}

const kMostSteps = 4000;

// Rows come in order of time. The controller sends a row twice rather than never, so a row that is no
// newer than the newest is one that is here already (or of a clock that was corrected, which would
// break the charts' search by time).
function append<Row extends [number, number, ...unknown[]]>(kept: Row[], rows: Row[]): Row[] {
  const all = kept.slice();
  let last = all[all.length - 1]?.[1] ?? -Infinity;
  for (const row of rows) {
    if (!(row[1] > last)) continue;
    all.push(row);
    last = row[1];
  }
  return all.length > kept.length ? all : kept;
}

// What happened to checkpoints is a list of events; several may share a moment.
function appendEvents(kept: CheckpointRow[], rows: CheckpointRow[]): CheckpointRow[] {
  if (rows.length === 0) return kept;
  const known = new Set(kept.map(String));
  const fresh = rows.filter((row) => !known.has(String(row)));
  return fresh.length > 0 ? [...kept, ...fresh] : kept;
}

function thin(rows: StepRow[]): StepRow[] {
  if (rows.length <= kMostSteps) return rows;
  const newest = rows.length - 1;
  return rows.filter((_, index) => index % 2 === 0 || index === newest);
}

export function extend(
  history: History,
  metrics: Omit<Metrics, "rank_shares"> & {
    resolution_seconds?: number; // an older controller has none of these
    rank_shares?: RankShares | null;
  },
): History {
  return {
    cursor: metrics.cursor,
    steps: thin(append(history.steps, metrics.steps)),
    evaluations: append(history.evaluations, metrics.evaluations),
    checkpoints: appendEvents(history.checkpoints, metrics.checkpoints),
    timeline: metrics.timeline,
    shares: metrics.rank_shares ?? null,
    prediction: metrics.prediction,
    resolution: metrics.resolution_seconds ?? 0,
  };
}

export { smooth } from "../parts/smooth";

// The journal says "written" and later "removed" of one name. One entry per name: the newest write,
// with what has become of it. A failure is an entry of its own.
export function currentCheckpoints<Row extends Checkpoint>(rows: Row[]): Row[] {
  const byName = new Map<string, Row>();
  const failures: Row[] = [];
  for (const row of rows) {
    const written = byName.get(row.name);
    if (row.status === "written") byName.set(row.name, row);
    else if (row.status === "failed") failures.push(row);
    else byName.set(row.name, written ? { ...written, status: row.status } : row);
  }
  return [...byName.values(), ...failures].sort((a, b) => a.step - b.step);
}

// Names that were removed and not written again.
export function removedNames(rows: CheckpointRow[]): Set<string> {
  const removed = new Set<string>();
  for (const [, , name, status] of rows) {
    if (status === "removed") removed.add(name);
    if (status === "written") removed.delete(name);
  }
  return removed;
}
