import { useRoute } from "./base/route";
import { useSession } from "./base/session";
import { Frame } from "./frame";
import { Login } from "./parts/login";
import { Loaded } from "./parts/loaded";
import { RunPage } from "./run/run_page";
import { RunList } from "./runs/run_list";

// Each of these is a script of its own.
const load = {
  compare: () => import("./compare/compare_view"),
  nodes: () => import("./nodes/nodes_view"),
  cluster: () => import("./cluster/cluster_view"),
  events: () => import("./events/events_view"),
  submit: () => import("./submit/submit_view"),
  settings: () => import("./settings/settings_view"),
};

function Pages() {
  const route = useRoute();
  if (route.page === "runs") return <RunList query={route.query} />;
  if (route.page === "run") return <RunPage key={route.id} id={route.id} tab={route.tab} />;
  const props = { query: route.query };
  if (route.page === "compare") return <Loaded load={load.compare} name="CompareView" props={props} />;
  if (route.page === "nodes") return <Loaded load={load.nodes} name="NodesView" props={props} />;
  if (route.page === "cluster") return <Loaded load={load.cluster} name="ClusterView" props={props} />;
  if (route.page === "events") return <Loaded load={load.events} name="EventsView" props={props} />;
  if (route.page === "submit") return <Loaded load={load.submit} name="SubmitView" props={props} />;
  return <Loaded load={load.settings} name="SettingsView" props={props} />;
}

export function App() {
  const { state, problem } = useSession();
  return (
    <Frame open={state === "open"}>
      {state === "open" && <Pages />}
      {state === "opening" && <p class="loading">Opening …</p>}
      {state === "closed" && <Login problem={problem} />}
    </Frame>
  );
}
