import { useEffect, useRef, useState } from "preact/hooks";
import type { Checkpoint, Plan, Run } from "./api";
import { api, hasEnded } from "./api";
import { CancelButton } from "./cancel";
import { CheckpointTable, Details, LogTail } from "./tabs";
import { Curves } from "./curves";
import { EventList } from "./event_list";
import { Figure } from "./figure";
import * as show from "./format";
import type { History } from "./history";
import { currentCheckpoints, emptyHistory, extend } from "./history";
import { StateBadge } from "./icons";
import { Connection, ErrorPanel, SilentSlurm, Warnings } from "./notices";
import { PlanTab } from "./plan_tab";
import { usePoll } from "./poll";
import { Ranks } from "./ranks";
import { ResumeButton } from "./resume";
import type { Tab } from "./route";
import { kTabs, runHash } from "./route";
import { Progress } from "./run_list";

interface Headline {
  figure: string;
  caption: string;
  note: string;
  tone: "" | "reached" | "missed";
}

// What the interval of a prediction comes from.
const kModels: Record<string, string> = {
  "past runs": ", from earlier runs of this kind",
  mlperf: ", from MLPerf's runs",
  "own curve": ", from this curve alone",
};

function headline(run: Run, history: History): Headline {
  const value = show.metric(run.metric, run.value);
  const target = show.target(run);
  if (target == null) {
    return {
      figure: value,
      caption: show.metricTitle(run.metric),
      note: "No target set.",
      tone: "",
    };
  }
  if (run.time_to_accuracy_seconds != null) {
    return {
      figure: show.duration(run.time_to_accuracy_seconds),
      caption: "time to accuracy",
      note: `Target ${target} reached, now ${value}.`,
      tone: "reached",
    };
  }
  if (hasEnded(run)) {
    return {
      figure: value,
      caption: "target not reached",
      note: `${run.state} at step ${show.count(run.step)}; the target is ${target}.`,
      tone: "missed",
    };
  }
  const left = run.predicted_seconds_to_target;
  if (left == null) {
    return {
      figure: show.kDash,
      caption: "predicted time to target",
      note: run.step > 0 ? "After a few more evaluations." : "Once training has begun.",
      tone: "",
    };
  }
  // The prediction's interval is on the run's clock; `left` counts from now on the same clock.
  const prediction = history.prediction;
  const now = prediction ? prediction.seconds - left : 0;
  const range = prediction
    ? `Between ${show.duration(prediction.low - now)} and ${show.duration(prediction.high - now)} ` +
      `(${Math.round(100 * prediction.confidence)}\u202f%${kModels[prediction.model ?? ""] ?? ""}).`
    : `Target ${target}.`;
  return {
    figure: `≈ ${show.duration(left)}`,
    caption: "predicted time to target",
    note: range,
    tone: "",
  };
}

function Figures({ run }: { run: Run }) {
  const title = run.metric === "mlm_accuracy" ? "Accuracy" : show.metricTitle(run.metric);
  const steps = Math.max(run.step, run.steps); // an attempt goes on as it began, past a lowered end
  const share = steps > 0 ? `${Math.floor((100 * run.step) / steps)} %` : undefined;
  const restarts = run.attempts > 1 ? `attempt ${run.attempts}` : undefined;
  return (
    <dl class="figures">
      <Figure
        name="Step"
        value={`${show.count(run.step)} / ${show.count(steps)}`}
        note={share}
      />
      <Figure name={title} value={show.metric(run.metric, run.value)} />
      <Figure name="Target" value={show.target(run) ?? "none"} />
      <Figure
        name="Baseline"
        value={show.isLoss(run.metric) ? show.kDash : show.metric(run.metric, run.baseline)}
        note="best constant guess"
      />
      <Figure
        name="Samples/s"
        value={show.number(run.samples_per_second)}
        note={
          run.tokens_per_second == null
            ? undefined
            : `${show.count(run.tokens_per_second)} tokens/s`
        }
      />
      <Figure name="Training" value={show.duration(run.training_seconds)} note={restarts} />
      <Figure name="Since submission" value={show.duration(run.since_submission_seconds)} />
    </dl>
  );
}

// Its task, unless it is the usual one, and what it began with.
function Beginning({ run }: { run: Run }) {
  const task = run.task != null && run.task !== "pretraining" ? run.task : null;
  const from = run.from;
  if (task == null && from == null) return null;
  const verb = from?.path == null ? "continues" : "begins with";
  return (
    <div class="small">
      {task}
      {task != null && from != null ? ", " : ""}
      {from == null ? null : from.run == null ? (
        `${verb} ${from.path}`
      ) : (
        <>
          {verb} {from.checkpoint} of <a href={runHash(from.run)}>{from.run}</a>
        </>
      )}
    </div>
  );
}

function Header({
  run,
  history,
  onChange,
}: {
  run: Run;
  history: History;
  onChange: (run: Run) => void;
}) {
  const head = headline(run, history);
  return (
    <>
      <div class="run-head">
        <div class="run-title">
          <h1>{run.name}</h1>
          <div class="run-state" role="status">
            <StateBadge state={run.state} />
            <span>{run.state_text}</span>
          </div>
          <Beginning run={run} />
        </div>
        {!hasEnded(run) && <CancelButton run={run} onChange={onChange} />}
        {hasEnded(run) && run.state !== "succeeded" && (
          <ResumeButton run={run} onChange={onChange} />
        )}
      </div>
      <section class="summary">
        <div class={`headline ${head.tone}`}>
          <span class="caption">{head.caption}</span>
          <strong>{head.figure}</strong>
          <span class="small">{head.note}</span>
        </div>
        <div class="summary-figures">
          <Figures run={run} />
          <Progress run={run} label={false} />
        </div>
      </section>
    </>
  );
}

function TabBar({ id, tab, checkpoints }: { id: string; tab: Tab; checkpoints: number | null }) {
  const names: Record<Tab, string> = {
    checkpoints: checkpoints == null ? "Checkpoints" : `Checkpoints (${checkpoints})`,
    plan: "Plan",
    log: "Log",
    details: "Details",
  };
  return (
    <nav class="tabs" aria-label="Run details">
      {kTabs.map((name) => (
        <a key={name} href={runHash(id, name)} aria-current={name === tab ? "page" : undefined}>
          {names[name]}
        </a>
      ))}
    </nav>
  );
}

export function RunPage({ id, tab }: { id: string; tab: Tab }) {
  const [run, setRun] = useState<Run | null>(null);
  const [history, setHistory] = useState<History>(emptyHistory);
  const [checkpoints, setCheckpoints] = useState<Checkpoint[] | null>(null);
  const [plan, setPlan] = useState<Plan | null>(null);
  const series = useRef(history);
  const listed = useRef(-1); // how many checkpoint events the table has taken in
  const ended = run != null && hasEnded(run);

  const health = usePoll(id, ended ? 5000 : 1000, async (signal) => {
    const since = series.current.cursor;
    const [newRun, metrics] = await Promise.all([
      api.run(id, signal),
      api.metrics(id, since, signal),
    ]);
    const before = series.current;
    series.current = extend(before, metrics);
    setRun(newRun);
    if (metrics.cursor !== since || metrics.prediction?.seconds !== before.prediction?.seconds) {
      setHistory(series.current);
    }
    const events = series.current.checkpoints.length;
    if (listed.current !== events) {
      const rows = events > 0 ? (await api.checkpoints(id, signal)).checkpoints : [];
      setCheckpoints(currentCheckpoints(rows));
      listed.current = events;
    }
  });

  useEffect(() => {
    document.title = run
      ? `${show.metric(run.metric, run.value)} ${run.name} · Regatta`
      : "Regatta";
  }, [run?.name, run?.value]);

  if (health.refusal?.status === 404) {
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
          <Header run={run} history={history} onChange={setRun} />
          {run.error && (
            <ErrorPanel
              title={run.state === "failed" ? "The run failed" : "Error"}
              text={run.error}
            />
          )}
          <SilentSlurm slurm={run.slurm} />
          <Warnings warnings={run.warnings ?? []} />
          <Curves run={run} history={history} />
          <Ranks run={run} timeline={history.timeline} />
          <EventList run={run} />
          <TabBar
            id={id}
            tab={tab}
            checkpoints={checkpoints?.filter((one) => one.status === "written").length ?? null}
          />
          {tab === "checkpoints" && <CheckpointTable run={run} checkpoints={checkpoints} />}
          {tab === "plan" && <PlanTab run={run} plan={plan} keep={setPlan} />}
          {tab === "log" && <LogTail run={run} />}
          {tab === "details" && <Details run={run} />}
        </>
      )}
    </>
  );
}
