import { useEffect, useRef } from "preact/hooks";
import { useRoute } from "./base/route";
import { useSession } from "./base/session";
import { Frame } from "./frame";
import { focusMain } from "./parts/focus";
import { Login } from "./parts/login";
import { Loaded } from "./parts/loaded";
import { NoView } from "./parts/no_view";
import { RunPage } from "./run/run_page";
import { RunList } from "./runs/run_list";

// Each of these is a script of its own.
const load = {
  compare: () => import("./compare/compare_view"),
  sweeps: () => import("./sweeps/sweeps_view"),
  sweep: () => import("./sweeps/sweep_view"),
  experiments: () => import("./experiments/experiments_view"),
  experiment: () => import("./experiments/experiment_view"),
  nodes: () => import("./nodes/nodes_view"),
  cluster: () => import("./cluster/cluster_view"),
  events: () => import("./events/events_view"),
  submit: () => import("./submit/submit_view"),
  settings: () => import("./settings/settings_view"),
};

function Pages() {
  const route = useRoute();
  useFocus("id" in route ? route.id : route.page);
  if (route.page === "runs") return <RunList query={route.query} />;
  if (route.page === "none") return <NoView path={route.path} run={route.run} />;
  if (route.page === "run") return <RunPage key={route.id} id={route.id} tab={route.tab} />;
  if (route.page === "sweep") {
    const props = { id: route.id, query: route.query };
    return <Loaded key={route.id} load={load.sweep} name="SweepView" props={props} />;
  }
  if (route.page === "experiment") {
    const props = { id: route.id, query: route.query };
    return <Loaded key={route.id} load={load.experiment} name="ExperimentView" props={props} />;
  }
  // By the key another view begins anew: without, it would be drawn by the one before.
  const shown = { key: route.page, props: { query: route.query } };
  if (route.page === "compare") return <Loaded {...shown} load={load.compare} name="CompareView" />;
  if (route.page === "sweeps") return <Loaded {...shown} load={load.sweeps} name="SweepsView" />;
  if (route.page === "experiments") {
    return <Loaded {...shown} load={load.experiments} name="ExperimentsView" />;
  }
  if (route.page === "nodes") return <Loaded {...shown} load={load.nodes} name="NodesView" />;
  if (route.page === "cluster") return <Loaded {...shown} load={load.cluster} name="ClusterView" />;
  if (route.page === "events") return <Loaded {...shown} load={load.events} name="EventsView" />;
  if (route.page === "submit") return <Loaded {...shown} load={load.submit} name="SubmitView" />;
  return <Loaded {...shown} load={load.settings} name="SettingsView" />;
}

// What had the focus is gone with the view it was in: back in a list it is on the row of where one
// was, elsewhere at the beginning of what has come.
function useFocus(place: string) {
  const before = useRef(place);
  useEffect(() => {
    if (before.current === place) return;
    const id = CSS.escape(before.current);
    const row = `tr:is([data-run="${id}"], [data-sweep="${id}"], [data-experiment="${id}"]) .row-link`;
    before.current = place;
    if (document.activeElement?.closest("main > *")) return; // the view has put it somewhere
    const link = document.querySelector<HTMLElement>(row);
    if (link) link.focus();
    else focusMain();
  }, [place]);
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
