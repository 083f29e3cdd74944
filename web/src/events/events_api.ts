import type { EventPage, RunEvent } from "../base/api";
import { get } from "../base/request";

// Of a run, a node, or the controller itself.
export interface AnyEvent extends RunEvent {
  run: string | null;
}
export interface AnyEventPage extends EventPage {
  events: AnyEvent[];
}

export const kPageSize = 100;
export const kMostNew = 1000; // the API's limit

const kFilters = ["kind", "run", "node", "by"] as const;
export type Filter = (typeof kFilters)[number];

// What of the address is asked of the API.
export function filtersOf(query: URLSearchParams): [Filter, string][] {
  return kFilters.flatMap((key): [Filter, string][] => {
    const value = query.get(key);
    return value ? [[key, value]] : [];
  });
}

// `which`: {limit}, {limit, before} or {limit, since}.
export function askEvents(
  query: URLSearchParams,
  which: Record<string, string | number>,
  signal: AbortSignal,
): Promise<AnyEventPage> {
  const asked = new URLSearchParams(filtersOf(query));
  for (const [key, value] of Object.entries(which)) asked.set(key, String(value));
  return get<AnyEventPage>(`events?${asked}`, signal);
}
