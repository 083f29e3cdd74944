// The machines that runs are planned for, as GET /topology has them.
import { useState } from "preact/hooks";
import type { Health } from "../base/poll";
import { usePoll } from "../base/poll";
import { Refusal, getOnce } from "../base/request";
import type { Fabric } from "./fabric";
import { fabricsOf } from "./fabric";
import type { GraphFile } from "./graph";
import { Graph } from "./graph";

interface NicKind {
  count: number;
  model: string | null;
  gbit_per_s: number | null;
}
interface NodeKind {
  nodes: number;
  names: string;
  model: string | null;
  gpus: number;
  gpu_models: string[];
  gpu_links: "nvlink" | "xgmi" | "pcie" | null;
  nics: NicKind[];
}
export interface Topology {
  fingerprint: string;
  nodes: number;
  kinds: NodeKind[];
  sources: { source: string; place: string }[];
  measured: string[];
  graph: GraphFile;
}

export interface Machines {
  topology: Topology;
  graph: Graph;
  fabrics: Fabric[];
}
// undefined: not known yet; null: the controller has no description of the machines.
export type Known = Machines | null | undefined;

const kEvery = 5000; // ms, until there is an answer
const kPatience = 120_000; // ms, as megabytes may come over a slow tunnel

// Asks once, as megabytes of a large fabric change only with another start of the controller.
export function useTopology(wanted: boolean): { machines: Known; health: Health } {
  const [machines, setMachines] = useState<Known>(undefined);
  const key = wanted && machines === undefined ? "topology" : null;
  const health = usePoll(key, kEvery, async (signal) => {
    try {
      const topology = await getOnce<Topology>("topology?graph=true", signal, kPatience);
      const graph = new Graph(topology.graph);
      setMachines({ topology, graph, fabrics: fabricsOf(graph) });
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 404)) throw error;
      setMachines(null);
    }
  });
  return { machines, health };
}
