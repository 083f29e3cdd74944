import { useState } from "preact/hooks";
import type { RunRow } from "./api";
import { api } from "./api";
import { usePoll } from "./poll";
import { useRoute } from "./route";
import { RunList } from "./run_list";
import { RunPage } from "./run_page";
import { Sail } from "./icons";
import { Login } from "./login";
import { useSession } from "./session";

function Pages() {
  const route = useRoute();
  const [runs, setRuns] = useState<RunRow[] | null>(null);
  const health = usePoll(route.page === "runs" ? "runs" : null, 1000, async (signal) => {
    setRuns((await api.runs(signal)).runs);
  });
  if (route.page === "runs") return <RunList runs={runs} health={health} />;
  return <RunPage key={route.id} id={route.id} tab={route.tab} />;
}

export function App() {
  const { state, problem } = useSession();
  return (
    <>
      <header class="top">
        <a class="brand" href="#/" aria-label="Regatta, all runs">
          <Sail />
          <span>Regatta</span>
        </a>
        <span class="motto">time to accuracy</span>
      </header>
      <main>
        {state === "open" && <Pages />}
        {state === "opening" && <p class="loading">Opening …</p>}
        {state === "closed" && <Login problem={problem} />}
      </main>
    </>
  );
}
