// What the tab of the plan asks beside the plan, when somebody wants to see it.
import { get } from "../base/request";

export interface Launch {
  launch: number;
  nodes: string | null; // "gpu-[016-017]"
}

export const planApi = {
  launches: (id: string, signal: AbortSignal) =>
    get<{ launches: Launch[] }>(`runs/${encodeURIComponent(id)}/attempts`, signal),
};
