import { useState } from "preact/hooks";
import type { Run } from "./api";
import { api } from "./api";
import { usePoll } from "./poll";
import { useRoute } from "./route";
import { RunList } from "./run_list";
import { RunPage } from "./run_page";
import { Sail } from "./icons";

export function App() {
  const route = useRoute();
  const [runs, setRuns] = useState<Run[] | null>(null);
  const health = usePoll(route.page === "runs" ? "runs" : null, 1000, async (signal) => {
    setRuns((await api.runs(signal)).runs);
  });
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
        {route.page === "runs" ? (
          <RunList runs={runs} health={health} />
        ) : (
          <RunPage
            key={route.id}
            id={route.id}
            tab={route.tab}
            known={runs?.find((run) => run.id === route.id) ?? null}
          />
        )}
      </main>
    </>
  );
}
