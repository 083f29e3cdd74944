// What the overview of the cluster asks for.
import type { Charts, EventPage, Run, RunRow } from "../base/api";
import { api } from "../base/api";
import { get } from "../base/request";
import type { NodePage } from "../nodes/nodes_api";

// A row of `?full=true`, as far as it is used here.
export type FullRow = RunRow & Pick<Run, "ranks" | "device">;
export interface FullPage {
  runs: FullRow[];
  next: string | null;
  total?: number | null;
}

export const kMostRuns = 1000; // of a visit
export const kMostEvents = 1000;
const kNodePages = 5; // of 1,000 nodes
const kChartRuns = 16; // of a request
export const kMostRetried = 48; // runs whose replayed steps are added up

const kActive = "state=queued,starting,running,stopping";

export async function allNodes(signal: AbortSignal): Promise<NodePage> {
  const first = await get<NodePage>("nodes?limit=1000", signal);
  let [nodes, next] = [first.nodes, first.next];
  for (let page = 1; next != null && page < kNodePages; page += 1) {
    const more = await get<NodePage>(`nodes?limit=1000&after=${encodeURIComponent(next)}`, signal);
    [nodes, next] = [[...nodes, ...more.nodes], more.next];
  }
  return { ...first, nodes, next };
}

export const clusterApi = {
  active: (signal: AbortSignal) =>
    get<FullPage>(`runs?${kActive}&full=true&total=true&limit=${kMostRuns}`, signal),
  since: (moment: string, signal: AbortSignal) => {
    const which = `since=${encodeURIComponent(moment)}&archived=all&full=true&total=true`;
    return get<FullPage>(`runs?${which}&limit=${kMostRuns}`, signal);
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
