import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ControllerHealth, Polling, RunEvent, Version } from "../base/api";
import { api } from "../base/api";
import { now as clockNow } from "../base/clock";
import { unitOf } from "../base/device";
import * as show from "../base/format";
import { usePoll } from "../base/poll";
import { setQuery } from "../base/route";
import { StateBadge } from "../parts/icons";
import { Connection, ErrorPanel } from "../parts/notices";
import { When } from "../parts/when";
import type { NodePage } from "../nodes/nodes_api";
import { nodesApi } from "../nodes/nodes_api";
import { totalsOf } from "../nodes/standing";
import type { FullPage, FullRow } from "./cluster_api";
import { branches, clusterApi, kMostRetried, kMostRuns } from "./cluster_api";
import { OverTimeCharts } from "./over_time";
import type { Replayed } from "./parts";
import { CheckTable, EventTables, HoursTables, NodeTable, Part, kRank } from "./parts";
import {
  countStates,
  endedSince,
  gpuHours,
  history,
  historyOf,
  longestWait,
  replayedHours,
  waits,
} from "./sums";

const kEvery = 15_000; // ms
const kHistoryEvery = 60_000; // ms, of what is large
const kRanges = [
  ["1", "the last 24 hours"],
  ["7", "the last 7 days"],
  ["30", "the last 30 days"],
] as const;
const kDefaultRange = "7";
const rangeText = (days: number) => kRanges.find(([name]) => Number(name) === days)?.[1] ?? "";

interface Now {
  active: FullPage;
  nodes: NodePage;
  health: ControllerHealth;
  version: Version;
}
interface Past {
  days: number;
  until: number; // seconds since 1970
  page: FullPage;
  ended: FullPage; // the newest of all that are over
  events: RunEvent[];
  replayed: Replayed;
}

async function askPast(days: number, signal: AbortSignal): Promise<Past> {
  const until = Math.floor(clockNow() / 60_000) * 60;
  const moment = new Date(1000 * (until - days * 86_400)).toISOString();
  const [page, ended, { events }] = await Promise.all([
    clusterApi.since(moment, signal),
    clusterApi.ended(signal),
    clusterApi.events(signal),
  ]);
  const retried = page.runs.filter((run) => run.attempts > 1);
  const some = retried.slice(0, kMostRetried);
  const hours = replayedHours(await branches(some.map(({ id }) => id), signal));
  const recent = events.filter(({ at }) => at != null && at >= moment);
  return {
    days,
    until,
    page,
    ended,
    events: recent,
    replayed: { hours, runs: some.length, retried: retried.length },
  };
}

function Card({ title, value, note }: { title: string; value: ComponentChildren; note: string }) {
  return (
    <div>
      <dt>{title}</dt>
      <dd>
        {value}
        <span class="small">{note}</span>
      </dd>
    </div>
  );
}

const isLocal = (now: Now) => now.version.scheduler === "local" || now.nodes.scheduler === "local";

// Of the controller's own machine nobody gives GPUs out.
function GpuCard({ nodes, local }: { nodes: NodePage; local: boolean }) {
  const { gpus, gpusAllocated: used } = useMemo(() => totalsOf(nodes.nodes), [nodes]);
  const isKnown = nodes.taken_at != null && gpus != null && gpus > 0;
  if (local) {
    const note = isKnown ? "of the controller's machine" : "none on the controller's machine";
    return <Card title="GPUs" value={isKnown ? show.count(gpus) : show.kDash} note={note} />;
  }
  const none = nodes.taken_at == null ? "Slurm has not been asked yet" : "no node says it has any";
  const first = nodes.next == null ? "" : `; of the first ${show.count(nodes.nodes.length)} nodes`;
  return (
    <Card
      title="GPUs allocated"
      value={isKnown ? `${show.count(used)} of ${show.count(gpus)}` : show.kDash}
      note={isKnown ? `by Slurm, also to other people's jobs${first}` : none}
    />
  );
}

function activeNote(shown: number, total: number): string {
  if (total === 0) return "No run is queued or running.";
  const all = `${show.count(total)} ${total === 1 ? "run is" : "runs are"} not over`;
  return shown < total ? `${all}; what follows is of the newest ${show.count(shown)}.` : `${all}.`;
}

function NowPart({ now }: { now: Now }) {
  const { active, nodes } = now;
  const runs = active.runs;
  const training = runs.filter((run) => run.state === "running");
  const ranks = training.reduce((sum, run) => sum + (run.ranks ?? 0), 0);
  const queued = runs.filter((run) => run.state === "queued");
  const longest = longestWait(queued);
  return (
    <Part title="Now" note={activeNote(runs.length, active.total ?? runs.length)}>
      <dl class="figures">
        <Card title="Running" value={show.count(training.length)} note="runs" />
        <Card
          title="Ranks"
          value={show.count(ranks)}
          note="of running runs; a rank is a GPU, on CPU runs a process"
        />
        <Card
          title="Queued"
          value={show.count(queued.length)}
          note={longest == null ? "runs" : `runs; new ones longest for ${show.duration(longest)}`}
        />
        <GpuCard nodes={nodes} local={isLocal(now)} />
      </dl>
      {runs.length > 0 && (
        <ul class="state-counts" aria-label="Runs that are not over, by state">
          {countStates(runs).map(([state, count]) => (
            <li key={state}>
              <a href={`#/?state=${state}`}>
                {show.count(count)} <StateBadge state={state} />
              </a>
            </li>
          ))}
        </ul>
      )}
    </Part>
  );
}

// Which runs a figure is of, as every part of the past says it.
function scopeOf({ page, days }: Past): string {
  const range = rangeText(days);
  const total = page.total ?? page.runs.length;
  const which =
    total > page.runs.length
      ? `the newest ${show.count(page.runs.length)} of ${show.count(total)} runs`
      : `all ${show.count(total)} runs`;
  return `${which} submitted in ${range}`;
}

function Waits({ runs, scope }: { runs: FullRow[]; scope: string }) {
  const wait = waits(runs);
  return (
    <Part
      title="Queue wait"
      note={
        `From submission to the first step, of ${show.count(wait.count)} runs that trained, of ` +
        `${scope}.`
      }
    >
      <dl class="figures">
        <Card title="Median" value={show.duration(wait.median)} note="half waited less" />
        <Card title="95 %" value={show.duration(wait.p95)} note="waited at most so long" />
        <Card title="Longest" value={show.duration(wait.longest)} note="of these" />
      </dl>
    </Part>
  );
}

function PastParts({ past, now }: { past: Past; now: Now | null }) {
  const { page, days, until, replayed } = past;
  const scope = scopeOf(past);
  const active = now?.active;
  const { hasRuns, moments, isCut, unit } = useMemo(() => {
    const from = until - days * 86_400;
    const all = [...endedSince(page.runs, active, until), ...(active?.runs ?? [])];
    const found = historyOf(all, past.ended, from);
    const gpus = now ? totalsOf(now.nodes.nodes).gpus : null;
    return {
      hasRuns: found.runs.length > 0,
      moments: history(found.runs, found.from, until),
      isCut: found.from > from,
      unit: unitOf([...found.runs, ...page.runs], (gpus ?? 0) > 0 || !now || !isLocal(now)),
    };
  }, [past, active, now?.nodes]);
  const hours = page.runs.reduce((sum, run) => sum + (gpuHours(run) ?? 0), 0);
  // Of an earlier submission, a run may well have trained or ended in these days.
  const submitted = page.runs.length > 0;
  return (
    <>
      {hasRuns && (
        <Part
          title={`Runs and ${unit}s over time`}
          note={
            `Of runs that ended in ${rangeText(days)} and of those that are not over` +
            (active?.next != null ? `, the newest ${show.count(active.runs.length)}` : "") +
            ". Waiting: from submission to the first step. Running: from there to the end, waits " +
            "between attempts included; now: by their states. " +
            (unit === "GPU" ? "GPUs: ranks" : `${kRank} Ranks: those`) +
            " of the newest attempt." +
            (isCut
              ? ` Of earlier ones than the newest ${show.count(kMostRuns)} nothing is shown.`
              : "")
          }
        >
          <OverTimeCharts key={days} moments={moments} hours={24 * days} unit={unit} />
        </Part>
      )}
      {submitted && <Waits runs={page.runs} scope={scope} />}
      {submitted && <HoursTables {...{ scope, hours, replayed, unit }} runs={page.runs} />}
      {!submitted && <p class="nothing">No run was submitted in {rangeText(days)}.</p>}
      {(submitted || hasRuns || past.events.length > 0) && (
        <EventTables events={past.events} days={days} />
      )}
    </>
  );
}

function Questions({ polling }: { polling: Polling }) {
  const { calls, most_calls, call_seconds, paused_seconds } = polling;
  return (
    <>
      <dl class="figures">
        <Card
          title="Questions to Slurm"
          value={`${show.count(calls)} of ${show.count(most_calls)}`}
          note="in the last minute, of those that the controller allows itself"
        />
        <Card
          title="An answer takes"
          value={call_seconds > 0 ? show.duration(call_seconds) : show.kDash}
          note={call_seconds > 0 ? "of the slowest kind; slow ones are asked for less often" : "none has come yet"}
        />
      </dl>
      {paused_seconds > 0 && (
        <p class="failure">
          Slurm said that it is asked too often: no question for {show.duration(paused_seconds)}.
        </p>
      )}
    </>
  );
}

function Controller({ now }: { now: Now }) {
  const { version, health, nodes } = now;
  const age =
    nodes.taken_at == null ? (
      "Slurm has not been asked for nodes yet; the controller does so now."
    ) : (
      <>
        Slurm's newest answer about nodes came <When at={nodes.taken_at} ago />.
      </>
    );
  const { adoption } = version;
  return (
    <Part
      title="Controller"
      note={
        `Regatta ${version.version}, commit ${version.commit ?? show.kDash}; scheduler ` +
        `${version.scheduler ?? "not known yet"}.`
      }
    >
      <p>{isLocal(now) ? "It runs without Slurm, so there is nobody to poll." : age}</p>
      {health.polling && <Questions polling={health.polling} />}
      {nodes.trouble != null && <p class="failure">{show.withoutEscapes(nodes.trouble)}</p>}
      {!adoption.done && (
        <p>
          It is reading run directories: {show.count(adoption.read)} of{" "}
          {show.count(adoption.found)}.
        </p>
      )}
      <CheckTable health={health} />
    </Part>
  );
}

export function ClusterView({ query }: { query: URLSearchParams }) {
  const asked = query.get("days");
  const range = kRanges.find(([name]) => name === asked)?.[0] ?? kDefaultRange;
  const days = Number(range);
  const [now, setNow] = useState<Now | null>(null);
  const [past, setPast] = useState<Past | null>(null);
  const newest = useRef({ at: 0, days: 0 }); // when the past was asked for
  const version = useRef<Version | null>(null);
  const health = usePoll("now", kEvery, async (signal) => {
    const known = version.current?.adoption.done ? version.current : api.version(signal);
    const [active, nodes, checks, about] = await Promise.all([
      clusterApi.active(signal),
      nodesApi.all(signal),
      api.health(signal),
      known,
    ]);
    version.current = about;
    setNow({ active, nodes, health: checks, version: about });
  });
  const pastHealth = usePoll(`past ${days}`, kEvery, async (signal) => {
    const { at, days: of } = newest.current;
    if (of === days && clockNow() - at < kHistoryEvery) return;
    const answer = await askPast(days, signal);
    newest.current = { at: clockNow(), days };
    setPast(answer);
  });
  useEffect(() => {
    document.title = "Cluster · Regatta";
  }, []);
  const refusal = health.refusal ?? pastHealth.refusal;
  return (
    <div class="cluster">
      <Connection health={pastHealth.failure != null ? pastHealth : health} />
      {refusal && <ErrorPanel title="The controller refused" text={show.withoutEscapes(refusal.message)} />}
      <div class="heading">
        <h1>Cluster</h1>
        <label class="beside">
          Figures of the past are of
          <select
            value={range}
            onChange={({ currentTarget: { value } }) =>
              setQuery({ days: value === kDefaultRange ? null : value })
            }
          >
            {kRanges.map(([name, title]) => (
              <option key={name} value={name}>
                {title}
              </option>
            ))}
          </select>
        </label>
      </div>
      {now == null && !health.failure && !refusal && <p class="loading">Loading…</p>}
      {now && <NowPart now={now} />}
      {now && <NodeTable nodes={now.nodes} local={isLocal(now)} />}
      {past == null && !pastHealth.failure && !refusal && <p class="loading">Adding up runs…</p>}
      <div class={past && past.days !== days ? "stale" : ""}>
        {past && <PastParts past={past} now={now} />}
      </div>
      {now && <Controller now={now} />}
    </div>
  );
}
