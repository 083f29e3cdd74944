// What the overview of the cluster asks for.
import type { Charts, EventPage, Run, RunRow } from "../base/api";
import { api } from "../base/api";
import { get, getOnce } from "../base/request";

// A row of `?full=true`, as far as it is used here.
export type FullRow = RunRow & Pick<Run, "ranks" | "device">;
export interface FullPage {
  runs: FullRow[];
  next: string | null;
  total?: number | null;
}

export const kMostRuns = 1000; // of a visit
export const kMostEvents = 1000;
const kChartRuns = 16; // of a request
const kPatience = 30_000; // ms, for a thousand runs
export const kMostRetried = 48; // runs whose replayed steps are added up

const kActive = "state=queued,starting,running,stopping";
const kOver = "state=succeeded,stopped,failed,cancelled";

export const clusterApi = {
  active: (signal: AbortSignal) =>
    get<FullPage>(`runs?${kActive}&full=true&total=true&limit=${kMostRuns}`, signal),
  since: (moment: string, signal: AbortSignal) => {
    const which = `since=${encodeURIComponent(moment)}&archived=all&full=true&total=true`;
    return getOnce<FullPage>(`runs?${which}&limit=${kMostRuns}`, signal, kPatience);
  },
  // Those that ended last.
  ended: (signal: AbortSignal) => {
    const which = `${kOver}&sort=ended&order=descending&archived=all&full=true`;
    return getOnce<FullPage>(`runs?${which}&limit=${kMostRuns}`, signal, kPatience);
  },
  events: (signal: AbortSignal) =>
    get<EventPage>(`events?kind=node,launch.ended&limit=${kMostEvents}`, signal),
};

// The steps of these runs along GPU-hours, cut where they were trained again.
export async function branches(ids: string[], signal: AbortSignal): Promise<Charts["runs"]> {
  const found: Charts["runs"] = [];
  for (let i = 0; i < Math.min(ids.length, kMostRetried); i += kChartRuns) {
    const some = ids.slice(i, Math.min(i + kChartRuns, kMostRetried)).map(encodeURIComponent);
    const query = `runs=${some.join(",")}&series=loss&x=device_hours&buckets=1`;
    found.push(...(await api.charts(query, signal)).runs);
  }
  return found;
}
