// Compiles only where what the API answers of nodes and their topology, by its document, is what
// the page takes it for.
import type { components, paths } from "../../examples/client/schema";
import type * as nodes from "../../web/src/nodes/nodes_api";
import type * as base from "../../web/src/base/api";
import type * as topology from "../../web/src/topology/topology_api";

type Schemas = components["schemas"];
type Asked = NonNullable<paths["/nodes"]["get"]["parameters"]["query"]>;
type State = NonNullable<Asked["state"]>[number];

export function takes(answer: {
  slim: Schemas["SlimNode"];
  full: Schemas["Node"];
  page: Schemas["Nodes"];
  topology: Schemas["Topology"];
  events: Schemas["Events"];
  attempts: Schemas["Attempts"];
  findings: Schemas["Findings"];
}): [
  nodes.SlimNode,
  nodes.FullNode,
  nodes.NodePage,
  Omit<topology.Topology, "graph">,
  nodes.NodeEventPage,
  Pick<base.Attempts, "launches">,
  nodes.FindingPage,
] {
  const { slim, full, page, topology: machines, events, attempts, findings } = answer;
  return [slim, full, page, machines, events, attempts, findings];
}

// The page offers each state that the API knows, and no other.
export function asks(state: (typeof nodes.kNodeStates)[number]): State {
  return state;
}
export function offers(state: State): (typeof nodes.kNodeStates)[number] {
  return state;
}
// What the page asks for is a parameter of the API.
export function filters(): (keyof Asked)[] {
  return ["state", "usable", "text", "partition", "nodes", "name", "limit", "after", "full"];
}
