import { useMemo, useState } from "preact/hooks";
import type { Plan, Run } from "../base/api";
import { api } from "../base/api";
import { withoutEscapes } from "../base/format";
import { usePoll } from "../base/poll";
import type { NodePage } from "../nodes/nodes_api";
import { nodesApi } from "../nodes/nodes_api";
import { Connection, ErrorPanel } from "../parts/notices";
import { NoFabric } from "../topology/fabric_choice";
import { FabricView } from "../topology/fabric_view";
import { DeviceMatrix } from "../topology/matrix";
import { useTopology } from "../topology/topology_api";
import type { Nodes } from "./placement";
import { nodesOf } from "./placement";

function Shown({ run, plan }: { run: Run; plan: Plan | null }) {
  const { machines, health } = useTopology(true);
  const [all, setAll] = useState<NodePage | null>(null);
  const [own, setOwn] = useState<Nodes | null | undefined>(undefined);
  const [chosen, setChosen] = useState<string | null>(null);
  const asking = usePoll(run.id, 10_000, async (signal) => {
    const [page, attempts] = await Promise.all([
      nodesApi.all(signal),
      api.attempts(run.id, signal),
    ]);
    setAll((old) => (old === page ? old : page));
    setOwn((old) => {
      const next = nodesOf(attempts, plan);
      return old && JSON.stringify(old) === JSON.stringify(next) ? old : next;
    });
  });
  const byName = useMemo(() => new Map(all?.nodes.map((node) => [node.name, node])), [all]);
  const refusal = health.refusal ?? asking.refusal;
  if (refusal) return <ErrorPanel title="The fabric cannot be shown" text={withoutEscapes(refusal.message)} />;
  if (machines === null) return <NoFabric machines={null} failure={null} />;
  if (!machines || own === undefined) {
    return (
      <>
        <Connection health={asking} />
        <NoFabric machines={undefined} failure={health.failure} />
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
        {...(own && { run: { nodes: own.names, isInOrder: own.isInOrder, as: "of this run" } })}
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
