import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { AttemptRow, Run } from "../base/api";
import { api, hasEnded } from "../base/api";
import { quoted } from "../base/download";
import * as show from "../base/format";
import { usePoll } from "../base/poll";
import { setQuery, useRoute } from "../base/route";
import { CopyButton } from "../parts/copy_button";
import { Command } from "../parts/download";
import { ErrorPanel } from "../parts/notices";
import type { Environment, SectionName, Told } from "./environment_api";
import { environmentOf, kSections } from "./environment_api";
import { FactTable } from "./fact_table";
import { aboutAttempt, aboutSection, aboutTraining, firstDigits, isObject } from "./facts";

const kAgainMilliseconds = 1000; // until there is an answer; more after each that failed
const titleOf = (name: string) => name.charAt(0).toUpperCase() + name.slice(1);

function Fold({
  name,
  about,
  digest,
  part,
}: {
  name: string;
  about: string;
  digest?: string;
  part: unknown;
}) {
  const [open, setOpen] = useState(false);
  return (
    <details class="env-part" data-part={name} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class="env-name">{titleOf(name)}</span>
        <span class="env-about">{about}</span>
        {digest != null && <code title={digest}>{firstDigits(digest)}</code>}
      </summary>
      {open && (
        <div class="env-open">
          <FactTable part={part} name={titleOf(name)} />
          {digest != null && (
            <p class="small">
              Digest of this section: <code>{digest}</code>
            </p>
          )}
        </div>
      )}
    </details>
  );
}

function SectionFold({ name, environment }: { name: SectionName; environment: Environment }) {
  const section = environment[name];
  if (!isObject(section)) return null;
  const digest = show.withoutEscapes(String(section.digest));
  return <Fold name={name} about={aboutSection(name, section)} digest={digest} part={section} />;
}

function Shown({ environment, isOver }: { environment: Environment; isOver: boolean }) {
  const whole = show.withoutEscapes(String(environment.fingerprint));
  const { attempt, training } = environment;
  return (
    <>
      <p class="env-print">
        Fingerprint <code title={whole}>{firstDigits(whole)}</code>{" "}
        <CopyButton text={whole} what="fingerprint" />
        <span class="small">
          Attempts with the same one should train equally fast and to the same weights.
        </span>
      </p>
      <div class="env-parts">
        {kSections.map((name) => (
          <SectionFold key={name} name={name} environment={environment} />
        ))}
        {isObject(attempt) && <Fold name="attempt" about={aboutAttempt(attempt)} part={attempt} />}
        {isObject(training) ? (
          <Fold name="training" about={aboutTraining(training, attempt)} part={training} />
        ) : (
          <p class="env-part env-none" data-part="training">
            <span class="env-name">Training</span>
            <span class="env-about">
              {isOver
                ? "nothing is told: the attempt was killed, or lost its machine"
                : "clocks and throttling are told when the attempt has ended"}
            </span>
          </p>
        )}
      </div>
    </>
  );
}

const attemptOf = (query: URLSearchParams) => {
  const text = query.get("attempt") ?? "";
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : null;
};

// Of a run that had several; null until they are known.
function useAttemptRows(run: Run): AttemptRow[] | null {
  const [told, setTold] = useState<{ key: string; rows: AttemptRow[] } | null>(null);
  const key = `${run.id} ${run.attempts}`;
  const isKnown = run.attempts < 2 || told?.key === key;
  usePoll(isKnown ? null : key, kAgainMilliseconds, async (signal) => {
    const { attempts } = await api.attempts(run.id, signal);
    setTold({ key, rows: attempts });
  });
  return told?.rows ?? null;
}

function AttemptChoice({ run, asked }: { run: Run; asked: number | null }) {
  const rows = useAttemptRows(run);
  if (run.attempts < 2 && asked == null) return null;
  const newest = run.attempt?.number ?? null;
  const begun = new Map((rows ?? []).map((row) => [row.attempt, row.started_at]));
  const numbers = [...begun.keys()].filter((number) => number !== newest || number === asked);
  if (asked != null && !numbers.includes(asked)) numbers.push(asked);
  numbers.sort((a, b) => b - a);
  const nameOf = (number: number) => {
    const at = begun.get(number);
    return at == null ? `Attempt ${number}` : `Attempt ${number}, begun ${show.when(at)}`;
  };
  return (
    <label class="env-choice">
      <span class="visually-hidden">Environment of </span>
      <select
        value={asked ?? ""}
        onChange={(event) => setQuery({ attempt: event.currentTarget.value || null })}
      >
        <option value="">{newest == null ? "Newest attempt" : `Newest attempt (${newest})`}</option>
        {numbers.map((number) => (
          <option key={number} value={number}>
            {nameOf(number)}
          </option>
        ))}
      </select>
    </label>
  );
}

// Asked for once, and again where the run says that it may be another. `why`: of the newest
// question, which had no answer.
function useEnvironment(run: Run, asked: number | null) {
  const [told, setTold] = useState<{ key: string; of: string; told: Told } | null>(null);
  const of = `${run.id} ${asked ?? ""}`;
  const has = [run.attempts, run.attempt?.execution, run.state, run.step > 0];
  const key = `${of} ${has.join(" ")}`;
  const hasNone = run.attempts === 0 && asked == null;
  const isDone = hasNone || told?.key === key;
  const health = usePoll(isDone ? null : key, kAgainMilliseconds, async (signal) => {
    const next = await environmentOf(run.id, asked, signal);
    if (!signal.aborted) setTold({ key, of, told: next });
  });
  const none: Told = { kind: "none", why: "no attempt has begun yet" };
  return {
    told: hasNone ? none : told?.of === of ? told.told : null,
    why: isDone ? null : health.failure,
  };
}

function Answer({ told, isOver }: { told: Told; isOver: boolean }) {
  if ("environment" in told) return <Shown environment={told.environment} isOver={isOver} />;
  if (told.kind === "damaged") {
    return <ErrorPanel title="The environment cannot be shown" text={told.why} />;
  }
  return <p class="nothing">No environment: {show.clipped(told.why)}</p>;
}

function Waiting({ children }: { children: ComponentChildren }) {
  return (
    <p class="loading" role="status">
      {children}
    </p>
  );
}

// What the newest attempt, or the one that is asked for, was built of and ran on.
export function EnvironmentPart({ run }: { run: Run }) {
  const asked = attemptOf(useRoute().query);
  const { told, why } = useEnvironment(run, asked);
  const isNewest = asked == null || asked === run.attempt?.number;
  const isOver = !isNewest || hasEnded(run);
  // The run is asked for every second; what is told here stays.
  const shown = useMemo(() => told && <Answer told={told} isOver={isOver} />, [told, isOver]);
  const which = asked == null ? "" : ` --attempt ${asked}`;
  return (
    <section class="environment" aria-labelledby="environment-title">
      <div class="buckets-head">
        <h2 id="environment-title">Environment</h2>
        <span class="small">what the attempt was built of and ran on</span>
        <AttemptChoice run={run} asked={asked} />
      </div>
      {why != null && (
        <Waiting>
          {told ? "This may have changed since" : "Not here yet"}; asking again.{" "}
          <span class="small">{show.withoutEscapes(why)}</span>
        </Waiting>
      )}
      {shown ?? (why == null && <Waiting>Loading environment…</Waiting>)}
      {told && "environment" in told && (
        <Command text={`regatta show ${quoted(run.id)} --environment${which}`} />
      )}
    </section>
  );
}
