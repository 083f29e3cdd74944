import { useEffect, useRef, useState } from "preact/hooks";
import type { Checkpoint, Plan, Run } from "../base/api";
import { api, hasEnded } from "../base/api";
import * as show from "../base/format";
import { useShortcuts } from "../base/keys";
import { usePoll } from "../base/poll";
import type { Tab } from "../base/route";
import { go, kTabs, parseRoute, runHash } from "../base/route";
import { Loaded } from "../parts/loaded";
import { Connection, ErrorPanel, SilentSlurm, Warnings } from "../parts/notices";
import { Header } from "./header";
import type { History } from "./history";
import { currentCheckpoints, emptyHistory, extend } from "./history";

// Each tab is a script of its own.
const load = {
  curves: () => import("./curves_tab"),
  time: () => import("../time/time_tab"),
  checkpoints: () => import("../checkpoints/checkpoint_tab"),
  plan: () => import("../plan/plan_tab"),
  log: () => import("../logs/log_tab"),
  events: () => import("../events/event_list"),
  details: () => import("../details/details_tab"),
};

const kNone: Checkpoint[] = [];

const kTabNames: Record<Tab, string> = {
  curves: "Curves",
  time: "Time",
  checkpoints: "Checkpoints",
  plan: "Plan",
  log: "Log",
  events: "Events",
  details: "Details",
};

function TabBar({ id, tab, checkpoints }: { id: string; tab: Tab; checkpoints: number | null }) {
  const beside = (by: 1 | -1) => {
    const next = kTabs[(kTabs.indexOf(tab) + by + kTabs.length) % kTabs.length];
    go(runHash(id, next), "replace");
  };
  useShortcuts([
    { keys: "l", does: "Log of the run", act: () => go(runHash(id, "log")) },
    { keys: "]", does: "Next tab", act: () => beside(1) },
    { keys: "[", does: "Tab before", act: () => beside(-1) },
    { keys: "Escape", does: "Back to the runs", act: () => go("#/") },
  ]);
  const press = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by !== 1 && by !== -1) return;
    event.preventDefault();
    beside(by);
  };
  // Where arrows have moved the place, the focus goes with it.
  const bar = useRef<HTMLElement>(null);
  useEffect(() => {
    if (!bar.current?.contains(document.activeElement)) return;
    bar.current.querySelector<HTMLElement>("[aria-current]")?.focus();
  }, [tab]);
  return (
    <nav class="tabs" aria-label="Run details" ref={bar} onKeyDown={press}>
      {kTabs.map((name) => (
        <a key={name} href={runHash(id, name)} aria-current={name === tab ? "page" : undefined}>
          {kTabNames[name]}
          {name === "checkpoints" && checkpoints != null && ` (${checkpoints})`}
        </a>
      ))}
    </nav>
  );
}

// A run that is gone, but for files that are not.
function Left({ id, text }: { id: string; text: string }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  return (
    <section class="empty" role="status">
      <h1 ref={heading} tabIndex={-1}>
        The run is removed
      </h1>
      <p>
        <code>{id}</code>: {show.withoutEscapes(text)}
      </p>
      <p>
        <a href="#/">All runs</a>
      </p>
    </section>
  );
}

function titleOf(run: Run | null, isGone: boolean): string {
  if (run == null) return isGone ? "No such run · Regatta" : "Regatta";
  const value = isGone ? "Removed:" : show.metric(run.metric, run.value, run.target);
  return `${value} ${show.drawnName(run.name)} · Regatta`;
}

export function RunPage({ id, tab }: { id: string; tab: Tab }) {
  const [run, setRun] = useState<Run | null>(null);
  const [history, setHistory] = useState<History>(emptyHistory);
  const [listed, setListed] = useState<{ events: number; rows: Checkpoint[] } | null>(null);
  const [plan, setPlan] = useState<Plan | null>(null);
  const series = useRef(history);
  const [left, setLeft] = useState<string | null>(null); // why files of a removed run are there
  const acted = useRef(0); // how often the reader has changed it
  const ended = run != null && hasEnded(run);

  const health = usePoll(id, ended ? 5000 : 1000, async (signal) => {
    const since = series.current.cursor;
    const actions = acted.current;
    const [newRun, metrics] = await Promise.all([
      api.run(id, signal),
      api.metrics(id, since, signal),
    ]);
    const before = series.current;
    series.current = extend(before, metrics);
    // What was asked before an action is older than what that has answered.
    if (actions === acted.current) setRun(newRun);
    if (metrics.cursor !== since || metrics.prediction?.seconds !== before.prediction?.seconds) {
      setHistory(series.current);
    }
  });

  // Asked by itself, until what is known of is listed: what a disk does not answer takes nothing else
  // away. The table asks as well, and says why there is none.
  const events = history.checkpoints.length;
  const isListed = events === (listed?.events ?? 0);
  usePoll(isListed ? null : `${id} ${events}`, 1000, async (signal) => {
    const { checkpoints } = await api.checkpoints(id, signal);
    setListed({ events, rows: currentCheckpoints(checkpoints) });
  });
  const checkpoints = listed?.rows ?? (run && events === 0 ? kNone : null);

  const isGone = left != null || health.refusal?.status === 404;
  useEffect(() => {
    document.title = titleOf(run, isGone);
  }, [run?.name, run?.value, isGone]);

  const onChange = (next: Run) => {
    acted.current += 1;
    setRun(next);
  };
  const onRemoved = (why: string | null) => {
    const route = parseRoute(location.hash);
    if (why != null) setLeft(why);
    else if (route.page === "run" && route.id === id) go("#/"); // or the reader is elsewhere by now
  };

  if (left != null) return <Left id={id} text={left} />;
  if (isGone && run) return <Left id={id} text="somebody removed it while it was shown here." />;
  if (isGone) {
    return (
      <section class="empty">
        <h1>No such run</h1>
        <p>
          The controller does not know the run <code>{id}</code>. <a href="#/">All runs</a>
        </p>
      </section>
    );
  }
  return (
    <>
      <a class="back" href="#/">
        ← All runs
      </a>
      <Connection health={health} />
      {health.refusal && (
        <ErrorPanel title="The controller refused" text={health.refusal.message} />
      )}
      {!run ? (
        !health.failure && <p class="loading">Loading run…</p>
      ) : (
        <>
          <Header run={run} history={history} onChange={onChange} onRemoved={onRemoved} />
          {run.error && (
            <ErrorPanel
              title={run.state === "failed" ? "The run failed" : "Error"}
              text={run.error}
            />
          )}
          <SilentSlurm slurm={run.slurm} />
          <Warnings warnings={run.warnings ?? []} />
          <TabBar
            id={id}
            tab={tab}
            checkpoints={checkpoints?.filter((one) => one.status === "written").length ?? null}
          />
          {tab === "curves" && (
            <Loaded
              load={load.curves}
              name="CurvesTab"
              props={{ run, history, checkpoints: checkpoints ?? kNone }}
            />
          )}
          {tab === "time" && (
            <Loaded
              load={load.time}
              name="TimeTab"
              props={{ run, history, checkpoints: checkpoints ?? kNone }}
            />
          )}
          {tab === "checkpoints" && (
            <Loaded
              load={load.checkpoints}
              name="CheckpointTab"
              props={{ run, checkpoints, onChange }}
            />
          )}
          {tab === "plan" && (
            <Loaded
              load={load.plan}
              name="PlanTab"
              props={{ run, plan, keep: setPlan, history }}
            />
          )}
          {tab === "log" && <Loaded load={load.log} name="LogTab" props={{ run }} />}
          {tab === "events" && <Loaded load={load.events} name="EventList" props={{ run }} />}
          {tab === "details" && <Loaded load={load.details} name="DetailsTab" props={{ run }} />}
        </>
      )}
    </>
  );
}
