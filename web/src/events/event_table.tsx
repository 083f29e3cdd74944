import { useState } from "preact/hooks";
import type { RunEvent } from "../base/api";
import { count, kDash, withoutEscapes as clean } from "../base/format";
import { runHash } from "../base/route";
import { When } from "../parts/when";
import { nodeHash, titleOf, toneOf } from "./kinds";

type TableEvent = RunEvent & { run?: string | null };
const kMarks = { bad: "✗", good: "✓", "": "·" } as const;

// Of the run, not which run or node, which have columns of their own.
function stageOf(event: RunEvent): string[] {
  const parts: string[] = [];
  if (event.launch != null) parts.push(`launch ${event.launch}`);
  if (event.attempt != null) parts.push(`attempt ${event.attempt}`);
  if (event.checkpoint != null) parts.push(clean(event.checkpoint));
  else if (event.step != null) parts.push(`step ${count(event.step)}`);
  return parts;
}

// Names and words come from journals, logs, Slurm and people.
function EventRow({
  event,
  ofRun,
  isFull,
}: {
  event: TableEvent;
  ofRun: boolean;
  isFull: boolean;
}) {
  const tone = toneOf(event.kind);
  const stage = stageOf(event);
  const none = (value: unknown) => (value ? "" : "none");
  return (
    <tr data-event={event.number}>
      <td class="nowrap">
        <When at={event.at} full={isFull} />
      </td>
      <td class="reason">
        <span class={`event-name ${tone}`} title={clean(event.kind)}>
          <span aria-hidden="true">{kMarks[tone]} </span>
          {titleOf(clean(event.kind))}
        </span>
        {isFull && <code class="small">{clean(event.kind)}</code>}
        {event.words && <span class="small">{clean(event.words)}</span>}
      </td>
      {!ofRun && (
        <td class={none(event.run)} data-name="Run">
          {event.run ? <a href={runHash(event.run)}>{clean(event.run)}</a> : kDash}
        </td>
      )}
      <td class={none(stage[0])} data-name="Where">
        {stage.map((part, index) => (
          <span key={index} class="piece">
            {part}
            {index + 1 < stage.length && ", "}
          </span>
        ))}
        {stage.length === 0 && kDash}
      </td>
      <td class={none(event.node)} data-name="Node">
        {event.node ? <a href={nodeHash(event.node)}>{clean(event.node)}</a> : kDash}
      </td>
      <td class={none(event.by)} data-name="Asked by">
        {event.by ? clean(event.by) : kDash}
      </td>
    </tr>
  );
}

const kHeads = ["Time", "Event", "Run", "Where", "Node", "Asked by"];

// The newest first; of a run, or of all of them, which then each event says.
export function EventTable({ events, ofRun = false }: { events: TableEvent[]; ofRun?: boolean }) {
  const [isFull, setIsFull] = useState(false);
  const words = (
    <button
      type="button"
      class="quiet words"
      aria-pressed={isFull}
      onClick={() => setIsFull(!isFull)}
    >
      UTC and API words
    </button>
  );
  return (
    <>
      {words}
      <Table {...{ events, ofRun, isFull }} />
    </>
  );
}

function Table({
  events,
  ofRun,
  isFull,
}: {
  events: TableEvent[];
  ofRun: boolean;
  isFull: boolean;
}) {
  return (
    <div class="scroll">
      <table class="cards">
        <thead>
          <tr>
            {kHeads
              .filter((title) => !ofRun || title !== "Run")
              .map((title) => (
                <th key={title} scope="col">
                  {title}
                </th>
              ))}
          </tr>
        </thead>
        <tbody>
          {events.map((event) => (
            <EventRow key={event.number} {...{ event, ofRun, isFull }} />
          ))}
        </tbody>
      </table>
    </div>
  );
}
