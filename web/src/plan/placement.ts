// On which nodes a run is. Nothing here draws.
import type { AttemptRow, Attempts, Plan } from "../base/api";
import { expandHosts } from "../topology/hostlist";

export type Placed = Pick<AttemptRow, "attempt" | "hosts" | "ranks_per_node">;

// On which node a rank of the attempt is; the plan's seats are not asked, as Slurm chooses the nodes.
export function nodeOfRank(rank: number, attempt: Placed | undefined): string | null {
  if (!attempt || !(attempt.ranks_per_node > 0)) return null;
  return attempt.hosts[Math.floor(rank / attempt.ranks_per_node)] ?? null;
}

export interface Nodes {
  names: string[];
  isInOrder: boolean; // of their ranks
  from: string; // what says so
}

// The nodes of the newest launch that has some; before that the plan's. Slurm lists them by name,
// the journal in the order of their ranks.
export function nodesOf(
  { launches, attempts }: Pick<Attempts, "launches" | "attempts">,
  plan: Plan | null,
): Nodes | null {
  const [newest] = launches.slice(-1);
  const placed = [...launches].reverse().find(({ nodes }) => nodes);
  if (placed) {
    const names = expandHosts(placed.nodes);
    const known = new Set(names);
    const ranked = attempts
      .filter(({ launch }) => launch === placed.launch)
      .map(({ hosts }) => [...new Set(hosts)])
      .find((hosts) => hosts.length === known.size && hosts.every((host) => known.has(host)));
    const older = `of launch ${placed.launch}, as launch ${newest?.launch} has none yet`;
    const from = placed === newest ? "of its newest launch" : older;
    return { names: ranked ?? names, isInOrder: ranked != null, from };
  }
  const seats = [...new Set(plan?.seats?.map(({ node }) => node))];
  return seats.length > 0 ? { names: seats, isInOrder: true, from: "that the plan names" } : null;
}
