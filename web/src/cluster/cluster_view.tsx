import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ControllerHealth, RunEvent, Version } from "../base/api";
import { api } from "../base/api";
import * as show from "../base/format";
import { usePoll } from "../base/poll";
import { setQuery } from "../base/route";
import { StateBadge } from "../parts/icons";
import { Connection, ErrorPanel } from "../parts/notices";
import type { NodePage } from "../nodes/nodes_api";
import type { FullPage, FullRow } from "./cluster_api";
import { allNodes, branches, clusterApi, kMostRetried } from "./cluster_api";
import { OverTimeCharts } from "./over_time";
import type { Replayed } from "./parts";
import { CheckTable, EventTables, HoursTables, NodeTable, Part } from "./parts";
import { countStates, gpuHours, history, replayedHours, waits } from "./sums";

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
  events: RunEvent[];
  replayed: Replayed;
}

async function askPast(days: number, signal: AbortSignal): Promise<Past> {
  const until = Math.floor(Date.now() / 60_000) * 60;
  const moment = new Date(1000 * (until - days * 86_400)).toISOString();
  const [page, { events }] = await Promise.all([
    clusterApi.since(moment, signal),
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

function NowPart({ now }: { now: Now }) {
  const { active, nodes } = now;
  const runs = active.runs;
  const total = active.total ?? runs.length;
  const training = runs.filter((run) => run.state === "running");
  const ranks = training.reduce((sum, run) => sum + (run.ranks ?? 0), 0);
  const queued = runs.filter((run) => run.state === "queued");
  const longest = Math.max(0, ...queued.map((run) => run.since_submission_seconds ?? 0));
  const gpus = nodes.nodes.reduce((sum, node) => sum + (node.gpus?.count ?? 0), 0);
  const used = nodes.nodes.reduce((sum, node) => sum + (node.gpus_allocated ?? 0), 0);
  const of =
    runs.length < total ? `of the newest ${show.count(runs.length)} that are not over` : "not over";
  return (
    <Part title="Now" note={
        total === 0
          ? "No run is queued or running."
          : `${show.count(total)} ${total === 1 ? "run is" : "runs are"} not over.`
      }>
      <dl class="figures">
        <Card title="Running" value={show.count(training.length)} note={`runs, ${of}`} />
        <Card
          title="Ranks"
          value={show.count(ranks)}
          note="of running runs; a rank is a GPU, on CPU runs a process"
        />
        <Card
          title="Queued"
          value={show.count(queued.length)}
          note={queued.length > 0 ? `longest for ${show.duration(longest)}` : `runs, ${of}`}
        />
        {isLocal(now) ? (
          <Card title="GPUs" value={show.kDash} note="no Slurm, so no nodes to count" />
        ) : (
          <Card
            title="GPUs allocated"
            value={`${show.count(used)} of ${show.count(gpus)}`}
            note="by Slurm, also to other people's jobs"
          />
        )}
      </dl>
      {runs.length > 0 && (
        <ul class="state-counts" aria-label="Runs that are not over, by state">
          {countStates(runs).map(([state, count]) => (
            <li key={state}>
              <a href={`#/?state=${state}`}>{show.count(count)}</a> <StateBadge state={state} />
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
  const moments = useMemo(() => {
    // What was submitted earlier and is not over counts as well.
    const here = new Set(page.runs.map(({ id }) => id));
    const older = now?.active.runs.filter(({ id }) => !here.has(id)) ?? [];
    return history([...page.runs, ...older], until - days * 86_400, until);
  }, [past, now?.active]);
  const hours = page.runs.reduce((sum, run) => sum + (gpuHours(run) ?? 0), 0);
  return (
    <>
      <Part
        title="Runs and GPUs over time"
        note={
          `Of ${scope}, and of runs that are not over. Waiting: from submission to the first ` +
          "step. Running: from there to the end, waits between attempts included. GPUs: ranks of " +
          "the newest attempt."
        }
      >
        <OverTimeCharts moments={moments} hours={24 * days} />
      </Part>
      <Waits runs={page.runs} scope={scope} />
      <HoursTables runs={page.runs} scope={scope} hours={hours} replayed={replayed} />
      <EventTables events={past.events} days={days} />
    </>
  );
}

function Controller({ now }: { now: Now }) {
  const { version, health, nodes } = now;
  const age =
    nodes.taken_at == null
      ? "Slurm has not been asked for nodes yet; the controller does so now."
      : `Slurm's newest answer about nodes is ${show.duration(nodes.age_seconds)} old.`;
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
      allNodes(signal),
      api.health(signal),
      known,
    ]);
    version.current = about;
    setNow({ active, nodes, health: checks, version: about });
  });
  const pastHealth = usePoll(`past ${days}`, kEvery, async (signal) => {
    const { at, days: of } = newest.current;
    if (of === days && Date.now() - at < kHistoryEvery) return;
    const answer = await askPast(days, signal);
    newest.current = { at: Date.now(), days };
    setPast(answer);
  });
  useEffect(() => {
    document.title = "Cluster · Regatta";
  }, []);
  const refusal = health.refusal ?? pastHealth.refusal;
  return (
    <div class="cluster">
      <Connection health={pastHealth.failure != null ? pastHealth : health} />
      {refusal && <ErrorPanel title="The controller refused" text={refusal.message} />}
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
        {past && past.page.runs.length > 0 && <PastParts past={past} now={now} />}
        {past && past.page.runs.length === 0 && (
          <p class="nothing">No run was submitted in {rangeText(past.days)}.</p>
        )}
      </div>
      {now && <Controller now={now} />}
    </div>
  );
}
