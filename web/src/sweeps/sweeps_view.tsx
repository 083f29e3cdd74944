import type { RefObject } from "preact";
import * as show from "../base/format";
import { runHash, setQuery, sweepHash } from "../base/route";
import { Name } from "../parts/name";
import { PagedList } from "../parts/paged_list";
import { When } from "../parts/when";
import { SweepBadge } from "./badges";
import { directionText, objectiveText, objectiveTitle } from "./objective";
import { Tried, methodText } from "./sweep_header";
import type { SweepSummary } from "./sweeps_api";
import { kSweepStates, sweepsApi } from "./sweeps_api";

const kWords = { view: "sweeps", title: "Sweeps", one: "sweep" };
const kHeads = ["Sweep", "State", "Method", "Objective", "Trials", "Best", "Started", "Owner"];

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

function Nothing() {
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

function Table({ sweeps, place }: {
  sweeps: SweepSummary[];
  place: RefObject<HTMLTableElement | null>;
}) {
  return (
    <table class="sweeps dense cards" ref={place}>
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
  );
}

export function SweepsView({ query }: { query: URLSearchParams }) {
  return (
    <PagedList
      words={kWords}
      query={query}
      filters={["state"]}
      ask={sweepsApi.list}
      rowsOf={(page) => page.sweeps}
      tools={<StateFilter query={query} />}
      table={(page, place) => <Table sweeps={page.sweeps} place={place} />}
      nothing={<Nothing />}
    />
  );
}
