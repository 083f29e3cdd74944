import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import * as show from "../base/format";
import { useShortcuts } from "../base/keys";
import { usePoll } from "../base/poll";
import type { Refusal } from "../base/request";
import { go, runHash, setQuery, sweepHash } from "../base/route";
import { focusMain } from "../parts/focus";
import { Name } from "../parts/name";
import { Connection } from "../parts/notices";
import { Pages } from "../parts/pages";
import { stepRows } from "../parts/rows";
import { When } from "../parts/when";
import { SweepBadge } from "./badges";
import { directionText, objectiveText, objectiveTitle } from "./objective";
import { Tried, methodText } from "./sweep_header";
import type { SweepPage, SweepSummary } from "./sweeps_api";
import { kSweepStates, sweepsApi } from "./sweeps_api";

const kPageSize = 50;
const kEvery = 2000; // ms
const kHeads = ["Sweep", "State", "Method", "Objective", "Trials", "Best", "Started", "Owner"];

function askedOf(query: URLSearchParams): string {
  const asked = new URLSearchParams({ limit: String(kPageSize) });
  for (const key of ["state", "after"]) {
    const value = query.get(key);
    if (value) asked.set(key, value);
  }
  return asked.toString();
}

function Trials({ sweep }: { sweep: SweepSummary }) {
  const { running, failed } = sweep.counts;
  const parts = [
    ...(running > 0 ? [`${show.count(running)} running`] : []),
    ...(failed > 0 ? [`${show.count(failed)} failed`] : []),
  ];
  return (
    <>
      <Tried sweep={sweep} />
      {parts.length > 0 && <span class="small">{parts.join(", ")}</span>}
    </>
  );
}

function Best({ sweep: { best, objective } }: { sweep: SweepSummary }) {
  if (!best) return <>{show.kDash}</>;
  const text = objectiveText(objective, best.objective);
  return (
    <>
      <a href={runHash(best.run)} aria-label={`${text}, run ${show.drawnName(best.run)}`}>
        {text}
      </a>{" "}
      <span class="small">trial {best.trial}</span>
    </>
  );
}

function Row({ sweep }: { sweep: SweepSummary }) {
  const reason = sweep.reason ? show.clipped(sweep.reason) : null;
  return (
    <tr data-sweep={sweep.id}>
      <th scope="row">
        <a class="row-link" href={sweepHash(sweep.id)} title={sweep.id}>
          <Name text={sweep.name} />
        </a>
      </th>
      <td data-name="State">
        <SweepBadge sweep={sweep} />
        {reason && (
          <span class="why failure" title={reason}>
            {reason}
          </span>
        )}
      </td>
      <td data-name="Method">{methodText(sweep)}</td>
      <td data-name="Objective">
        {objectiveTitle(sweep.objective)}
        <span class="small">{directionText(sweep.objective)}</span>
      </td>
      <td data-name="Trials">
        <Trials sweep={sweep} />
      </td>
      <td data-name="Best" class="num">
        <Best sweep={sweep} />
      </td>
      <td data-name="Started">
        <When at={sweep.created} ago />
      </td>
      <td data-name="Owner">
        <Name text={sweep.owner ?? show.kDash} />
      </td>
    </tr>
  );
}

function StateFilter({ query }: { query: URLSearchParams }) {
  const state = query.get("state") ?? "";
  const isOdd = state !== "" && !kSweepStates.some((one) => one === state);
  return (
    <label class="state-filter">
      State{" "}
      <select
        value={state}
        onChange={(event) => setQuery({ state: event.currentTarget.value, after: null })}
      >
        <option value="">all</option>
        {[...kSweepStates, ...(isOdd ? [state] : [])].map((one) => (
          <option key={one} value={one}>
            {show.drawnName(one)}
          </option>
        ))}
      </select>
    </label>
  );
}

function showAll() {
  go("#/sweeps");
  focusMain();
}

function Nothing({ query }: { query: URLSearchParams }) {
  if (query.get("state") || query.get("after")) {
    return (
      <section class="empty">
        <h2>{query.get("after") ? "This page is empty" : "No sweep is like that"}</h2>
        <button type="button" onClick={showAll}>
          Show all sweeps
        </button>
      </section>
    );
  }
  return (
    <section class="empty">
      <h2>No sweeps</h2>
      <p>
        A sweep tries values of some keys of a run file, each in a run of its own. Write which ones
        into the section <code>sweep</code> of the file and submit it.
      </p>
      <pre>
        <code>regatta sweep submit FILE</code>
      </pre>
    </section>
  );
}

function Refused({ refusal }: { refusal: Refusal }) {
  return (
    <section class="notice error" role="alert">
      <strong>The controller refused the list of sweeps</strong>
      <pre>{show.withoutEscapes(refusal.message)}</pre>
      <p>
        <a href="#/sweeps">Show all sweeps</a>
      </p>
    </section>
  );
}

function Table({ sweeps, place }: {
  sweeps: SweepSummary[];
  place: RefObject<HTMLTableElement | null>;
}) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Sweeps, table">
      <table class="sweeps cards" ref={place}>
        <thead>
          <tr>
            {kHeads.map((head) => (
              <th key={head} scope="col" class={head === "Best" ? "num" : undefined}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sweeps.map((sweep) => (
            <Row key={sweep.id} sweep={sweep} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function SweepsView({ query }: { query: URLSearchParams }) {
  const asked = askedOf(query);
  const [answer, setAnswer] = useState<{ asked: string; page: SweepPage } | null>(null);
  const health = usePoll(asked, kEvery, async (signal) => {
    const page = await sweepsApi.list(asked, signal);
    setAnswer((old) => (old?.page === page && old.asked === asked ? old : { asked, page }));
  });
  useEffect(() => {
    document.title = "Sweeps · Regatta";
  }, []);
  const place = useRef<HTMLTableElement>(null);
  useShortcuts([
    { keys: "j", does: "Next sweep", act: () => stepRows(place.current, 1) },
    { keys: "k", does: "Sweep before", act: () => stepRows(place.current, -1) },
  ]);
  const page = answer?.page; // of another address until the answer comes
  const isCurrent = answer?.asked === asked;
  const isFiltered = query.get("state") != null;
  return (
    <div class="wide-view">
      <Connection health={health} />
      {health.refusal && <Refused refusal={health.refusal} />}
      <div class="heading">
        <h1>Sweeps</h1>
        <span class="small" role="status">
          {page &&
            isCurrent &&
            `${show.count(page.sweeps.length)} of ${show.count(page.total)} shown`}
        </span>
      </div>
      {(isFiltered || (page != null && page.total > 0)) && (
        <div class="tools">
          <StateFilter query={query} />
        </div>
      )}
      {!page && !health.failure && !health.refusal && <p class="loading">Loading sweeps…</p>}
      {page && page.sweeps.length === 0 && isCurrent && <Nothing query={query} />}
      {page && page.sweeps.length > 0 && (
        <div class={isCurrent ? "" : "stale"} aria-busy={!isCurrent && !health.refusal}>
          <Table sweeps={page.sweeps} place={place} />
        </div>
      )}
      {page && (
        <Pages
          of="the sweeps"
          cursor="after"
          query={query}
          next={isCurrent ? page.next : null}
          rows={page.sweeps.length}
        />
      )}
    </div>
  );
}
