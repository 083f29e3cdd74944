import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { ControllerHealth, RunEvent } from "../base/api";
import type { Unit } from "../base/device";
import * as show from "../base/format";
import { When } from "../parts/when";
import type { NodePage } from "../nodes/nodes_api";
import { kNodeStates } from "../nodes/nodes_api";
import type { FullRow } from "./cluster_api";
import { kMostEvents } from "./cluster_api";
import type { EventSum, Sum } from "./sums";
import { byCause, byNodeState, byOutcome, byOwner, launchEnds, nodeEvents } from "./sums";

export function Part({
  title,
  note,
  children,
}: {
  title: string;
  note: ComponentChildren;
  children?: ComponentChildren;
}) {
  const id = useId();
  return (
    <section class="cluster-part" aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      <p class="small note">{note}</p>
      {children}
    </section>
  );
}

export const kRank = "A rank is a GPU, on CPU runs a process.";

const kMostRows = 20; // of a table by name

function Table({
  caption,
  heads,
  rows,
}: {
  caption: string;
  heads: string[]; // the first is of the rows' names, the others of figures
  rows: { name: ComponentChildren; key: string; cells: ComponentChildren[] }[];
}) {
  return (
    <div class="scroll" role="region" tabIndex={0} aria-label={caption}>
      <table>
        <caption class="small">
          {caption}
          {rows.length > kMostRows && `, the first ${kMostRows} of ${show.count(rows.length)}`}
        </caption>
        <thead>
          <tr>
            {heads.map((head, index) => (
              <th key={head} scope="col" class={index > 0 ? "num" : undefined}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, kMostRows).map(({ name, key, cells }) => (
            <tr key={key} data-name={key}>
              <th scope="row">{name}</th>
              {cells.map((cell, index) => (
                <td key={index} class="num">
                  {cell}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const kMostLetters = 120; // of a name
function plain(text: string): string {
  const letters = Array.from(show.withoutEscapes(text));
  const begin = letters.slice(0, kMostLetters).join("");
  return letters.length > kMostLetters ? `${begin}…` : begin;
}

const share = (part: number, whole: number) =>
  whole > 0 ? show.percent(part / whole) : show.kDash;

function hoursText({ hours, unknown }: Sum): string {
  return show.number(hours) + (unknown > 0 ? ` + ${show.count(unknown)} unknown` : "");
}

export interface Replayed {
  hours: number;
  runs: number; // whose steps are added up
  retried: number; // of so many with several attempts
}

function Replays({ hours, runs, retried, unit }: Replayed & { unit: Unit }) {
  if (runs === 0) {
    return (
      <p class="replayed">
        None of these runs had more than one attempt, so no step was trained twice by a resume.
      </p>
    );
  }
  const which =
    retried > runs
      ? `the newest ${show.count(runs)} of ${show.count(retried)} runs`
      : show.count(runs) + (runs === 1 ? " run" : " runs");
  return (
    <p class="replayed">
      Steps that were trained again after a resume or a rollback, with the evaluations between
      them:{" "}
      <strong>{show.number(hours)}</strong> {unit}-hours, of {which} with more than one attempt.
    </p>
  );
}

export function HoursTables({
  runs,
  scope,
  hours,
  replayed,
  unit,
}: {
  runs: FullRow[];
  scope: string;
  hours: number;
  replayed: Replayed;
  unit: Unit;
}) {
  const title = unit === "GPU" ? "GPU-hours" : "Rank-hours";
  const failed = byCause(runs);
  const whole = failed.reduce((sum, one) => sum + one.hours, 0);
  return (
    <Part
      title={title}
      note={
        `In training steps: ranks of the newest attempt × hours in steps, ${show.number(hours)} ` +
        `in all, of ${scope}.${unit === "GPU" ? "" : ` ${kRank}`}`
      }
    >
      <Table
        caption="By how the runs ended"
        heads={["Outcome", "Runs", title, "Share"]}
        rows={byOutcome(runs).map((sum) => ({
          key: sum.name,
          name: sum.name,
          cells: [show.count(sum.runs), hoursText(sum), share(sum.hours, hours)],
        }))}
      />
      <Replays {...replayed} unit={unit} />
      {failed.length > 0 && (
        <Table
          caption="By why runs failed; numbers, paths and names in the error are left out"
          heads={["Cause", "Runs", title, "Share of failed"]}
          rows={failed.map((sum) => ({
            key: sum.name,
            name: plain(sum.name),
            cells: [show.count(sum.runs), hoursText(sum), share(sum.hours, whole)],
          }))}
        />
      )}
      <Table
        caption="By owner"
        heads={["Owner", "Runs", title, "Share", "In failed or cancelled runs"]}
        rows={byOwner(runs).map((sum) => ({
          key: sum.name,
          name: plain(sum.name),
          cells: [
            show.count(sum.runs),
            hoursText(sum),
            share(sum.hours, hours),
            `${show.number(sum.lost)} (${share(sum.lost, sum.hours)})`,
          ],
        }))}
      />
    </Part>
  );
}

// A state with the nodes of it; what is beside it ("down, drained") is no filter of its own.
function StateLink({ state }: { state: string }) {
  const first = (state.split(",")[0] ?? "").replaceAll(" ", "_");
  const known = kNodeStates.find((one) => one === first);
  return <a href={`#/nodes${known ? `?state=${known}` : ""}`}>{plain(state)}</a>;
}

function nodesNote({ nodes, total, taken_at }: NodePage, local: boolean): ComponentChildren {
  if (taken_at == null) return "Slurm has not been asked for its nodes yet; look again in 10 s.";
  if (local) return "This controller runs without Slurm: its own machine.";
  const all = show.count(total);
  const of = nodes.length < total ? `the first ${show.count(nodes.length)} of ${all}` : `all ${all}`;
  return (
    <>
      Of {of} nodes, as Slurm said <When at={taken_at} ago />.
    </>
  );
}

export function NodeTable({ nodes, local }: { nodes: NodePage; local: boolean }) {
  return (
    <Part title="Nodes" note={nodesNote(nodes, local)}>
      {nodes.taken_at != null && (
        <Table
          caption="By state"
          heads={["State", "Nodes", "GPUs", "GPUs allocated", "Suspected nodes"]}
          rows={byNodeState(nodes.nodes).map((sum) => ({
            key: sum.state,
            name: <StateLink state={sum.state} />,
            cells: [
              show.count(sum.nodes),
              show.count(sum.gpus),
              show.count(sum.allocated),
              show.count(sum.suspected),
            ],
          }))}
        />
      )}
    </Part>
  );
}

const kMostNodes = 3; // of a row
function nodesText(nodes: string[]): string {
  if (nodes.length === 0) return show.kDash;
  const more = nodes.length - kMostNodes;
  return plain(nodes.slice(0, kMostNodes).join(", ")) + (more > 0 ? `, ${more} more` : "");
}

function EventTable({ caption, head, sums }: { caption: string; head: string; sums: EventSum[] }) {
  return (
    <Table
      caption={caption}
      heads={[head, "Times", "Newest", "Nodes, most often first"]}
      rows={sums.map(({ name, count, newest, nodes }) => ({
        key: name,
        name: plain(name),
        cells: [
          show.count(count),
          <When at={newest} ago />,
          nodesText(nodes),
        ],
      }))}
    />
  );
}

const kUntold = "What happened before a controller knew a run is not told.";

export function EventTables({ events, days }: { events: RunEvent[]; days: number }) {
  const [nodes, launches] = [nodeEvents(events), launchEnds(events)];
  const title = "Launches and nodes";
  const of =
    `Of the newest ${show.count(kMostEvents)} events of nodes and ended launches, those of the ` +
    `last ${days === 1 ? "24 hours" : `${days} days`}`;
  if (nodes.length + launches.length === 0) {
    const note = `${of}: none of a node, and no launch ended with a reason. ${kUntold}`;
    return <Part title={title} note={note} />;
  }
  return (
    <Part title={title} note={`${of}. ${kUntold}`}>
      {launches.length > 0 && (
        <EventTable caption="Launches that ended with a reason" head="Reason" sums={launches} />
      )}
      {nodes.length > 0 && <EventTable caption="Events of nodes" head="Event" sums={nodes} />}
    </Part>
  );
}

export function CheckTable({ health }: { health: ControllerHealth }) {
  return (
    <div class="scroll" role="region" tabIndex={0} aria-label="Checks of the controller">
      <table>
        <caption class="small">The controller's own checks: {health.status}</caption>
        <thead>
          <tr>
            <th scope="col">Check</th>
            <th scope="col">Result</th>
            <th scope="col">Detail</th>
          </tr>
        </thead>
        <tbody>
          {health.checks.map(({ name, good, detail }) => (
            <tr key={name} data-name={name}>
              <th scope="row">{name.replaceAll("_", " ")}</th>
              <td class={good ? "reached" : "failure"}>{good ? "✓ good" : "✗ not good"}</td>
              <td>{show.withoutEscapes(detail)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
