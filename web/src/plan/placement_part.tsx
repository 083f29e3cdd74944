import { useMemo, useState } from "preact/hooks";
import type { Plan, Run } from "../base/api";
import { api } from "../base/api";
import { withoutEscapes } from "../base/format";
import { usePoll } from "../base/poll";
import type { NodePage } from "../nodes/nodes_api";
import { nodesApi } from "../nodes/nodes_api";
import { Connection, ErrorPanel } from "../parts/notices";
import { FabricView } from "../topology/fabric_view";
import { expandHosts } from "../topology/hostlist";
import { DeviceMatrix } from "../topology/matrix";
import { useTopology } from "../topology/topology_api";

interface Nodes {
  names: string[]; // in the order of their ranks
  from: string; // what says so
}

// The nodes of the newest launch; before that the plan's.
export function nodesOf(launches: { nodes: string | null }[], plan: Plan | null): Nodes | null {
  const newest = [...launches].reverse().find(({ nodes }) => nodes != null && nodes !== "");
  if (newest?.nodes != null) {
    return { names: expandHosts(newest.nodes), from: "of its newest launch" };
  }
  const seats = [...new Set(plan?.seats?.map(({ node }) => node))];
  return seats.length > 0 ? { names: seats, from: "that the plan names" } : null;
}

function Shown({ run, plan }: { run: Run; plan: Plan | null }) {
  const { machines, health } = useTopology(true);
  const [all, setAll] = useState<NodePage | null>(null);
  const [own, setOwn] = useState<Nodes | null | undefined>(undefined);
  const [chosen, setChosen] = useState<string | null>(null);
  const asking = usePoll(run.id, 10_000, async (signal) => {
    const [page, { launches }] = await Promise.all([
      nodesApi.all(signal),
      api.attempts(run.id, signal),
    ]);
    setAll((old) => (old === page ? old : page));
    setOwn((old) => {
      const next = nodesOf(launches, plan);
      return old?.names.join() === next?.names.join() ? (old ?? next) : next;
    });
  });
  const byName = useMemo(() => new Map(all?.nodes.map((node) => [node.name, node])), [all]);
  const refusal = health.refusal ?? asking.refusal;
  if (refusal) return <ErrorPanel title="The fabric cannot be shown" text={refusal.message} />;
  if (machines === null) {
    return (
      <p class="nothing">
        The fabric is not known: start the controller with <code>--cluster FILE</code>.
      </p>
    );
  }
  if (!machines || own === undefined) {
    return (
      <>
        <Connection health={asking} />
        <p class="loading">Loading the fabric…</p>
      </>
    );
  }
  return (
    <>
      <p class="small">
        {own ? `Marked: the nodes ${own.from}.` : "No node of this run is known yet."} Colours are
        the nodes' states now.
      </p>
      <FabricView
        machines={machines}
        nodes={byName}
        onOpen={setChosen}
        {...(own && { run: { nodes: own.names, as: "of this run" } })}
      />
      <p class="visually-hidden" role="status">
        {chosen != null && `The devices of ${withoutEscapes(chosen)} are below the fabric`}
      </p>
      {chosen != null && (
        <section class="chosen-node" aria-label={`Devices of ${withoutEscapes(chosen)}`}>
          <h3>GPUs and NICs of {withoutEscapes(chosen)}</h3>
          <DeviceMatrix graph={machines.graph} node={chosen} />
          <a href={`#/nodes?node=${encodeURIComponent(chosen)}`}>All about this node</a>
        </section>
      )}
    </>
  );
}

// Where the run's nodes lie in the fabric. It is asked for when somebody wants to see it: a large
// fabric is megabytes.
export function PlacementPart({ run, plan }: { run: Run; plan: Plan | null }) {
  const [open, setOpen] = useState(false);
  const nodes = run.ranks == null ? 0 : run.ranks / Math.max(1, run.ranks_per_node ?? run.ranks);
  if (nodes <= 1 && (plan?.seats?.length ?? 0) <= 1) return null;
  return (
    <section class="plan-more" aria-label="Placement">
      <h2>
        Placement <span class="small">in the fabric</span>
      </h2>
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? "Hide the fabric" : "Show the nodes in the fabric"}
      </button>
      {open && <Shown run={run} plan={plan} />}
    </section>
  );
}
