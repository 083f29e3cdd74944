import type { Run } from "../base/api";
import * as show from "../base/format";
import { useNow } from "../base/poll";
import { When } from "../parts/when";
import type { Deed } from "./checkpoint_tab";
import { conditionOf, isStored, whenItGoes, writeRate } from "./checkpoints";
import type { CheckpointRow, Verification } from "./checkpoints_api";
import { kMostRead } from "./checkpoints_api";

// A shape for every condition, so that colour is never the only sign.
const kShapes: Record<string, string> = {
  valid: "M3 8.5l3.4 3.4L13 4.8",
  damaged: "M8 2.5L14 13.5H2zM8 6.5v3.4M8 11.6v.4",
  failed: "M4 4l8 8M12 4l-8 8",
};
const kOther = "M3.5 8h9";

// What this page has asked of a checkpoint.
export type Check =
  | { state: "waiting" } // for another one to be read
  | { state: "reading"; since: number }
  | { state: "done"; result: Verification; at: string }
  | { state: "refused"; message: string };

function Reading({ since, bytes }: { since: number; bytes: number | null }) {
  const seconds = Math.max(0, (useNow(true) - since) / 1000);
  return (
    <span class="small">
      Reading {show.bytes(bytes)}… <span aria-hidden="true">{Math.round(seconds)} s</span>
    </span>
  );
}

function Verified({ row, check }: { row: CheckpointRow; check: Check | undefined }) {
  return (
    <div role="status">
      {check?.state === "waiting" && <span class="small">Waits for the one that is read…</span>}
      {check?.state === "reading" && <Reading since={check.since} bytes={row.bytes} />}
      {check?.state === "refused" && (
        <span class="failure small">Not verified: {show.withoutEscapes(check.message)}</span>
      )}
      {check?.state === "done" && (
        <span class={check.result.good ? "small" : "small failure"}>
          {check.result.good ? "verified " : "found damaged "}
          <When at={check.at} />: {show.withoutEscapes(check.result.message)},{" "}
          {show.bytes(check.result.bytes)} in {show.duration(check.result.seconds)}
        </span>
      )}
    </div>
  );
}

function State({ row, check }: { row: CheckpointRow; check: Check | undefined }) {
  const condition = conditionOf(row);
  return (
    <td data-name="State">
      <span class={`badge condition-${condition}`}>
        <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
          <path class="line" d={kShapes[condition] ?? kOther} />
        </svg>
        {condition}
      </span>
      {row.reason && condition !== "valid" && (
        <span class="small failure">{show.withoutEscapes(row.reason)}</span>
      )}
      <Verified row={row} check={check} />
    </td>
  );
}

function Written({ row }: { row: CheckpointRow }) {
  const rate = writeRate(row);
  const parts = [
    ["write", row.write_seconds],
    ["sync", row.sync_seconds],
    ["copy", row.copy_seconds],
  ] as const;
  const told = parts.filter(([, seconds]) => seconds != null);
  return (
    <td data-name="Written">
      <When at={row.at} />
      <span class="small">
        {show.duration(row.seconds)}
        {rate != null && ` ${show.bytes(rate)}/s`}, stalled {show.duration(row.stall_seconds)}
      </span>
      {told.length > 0 && (
        <span class="small">
          {told.map(([name, seconds]) => `${name} ${show.duration(seconds)}`).join(", ")}
        </span>
      )}
    </td>
  );
}

// Why it stays when others go, until when, or why there is none.
function Kept({ run, row }: { run: Run; row: CheckpointRow }) {
  if (row.message) {
    return (
      <td class="reason" data-name="Why">
        {show.withoutEscapes(row.message)}
      </td>
    );
  }
  const reasons = (row.kept_because ?? []).filter((reason) => reason !== "pinned" || !row.pinned);
  const goes = whenItGoes(row, run);
  return (
    <td class="reason" data-name="Kept because">
      {reasons.length > 0 ? reasons.map(show.withoutEscapes).join(", ") : !row.pinned && show.kDash}
      {row.pinned && (
        <span class="pinned">
          <strong>Pinned</strong> <When at={row.pinned.at} ago />
          {row.pinned.reason && <>: {show.withoutEscapes(row.pinned.reason)}</>}
        </span>
      )}
      {goes != null && <span class="small">goes {goes}</span>}
    </td>
  );
}

function Actions({
  row,
  check,
  onDeed,
  onVerify,
}: {
  row: CheckpointRow;
  check: Check | undefined;
  onDeed: (deed: Deed, row: CheckpointRow) => void;
  onVerify: (row: CheckpointRow) => void;
}) {
  const button = (deed: Deed, text: string) => (
    <button
      type="button"
      class="quiet"
      aria-label={`${text.replace("…", "")} the checkpoint of step ${row.step}`}
      onClick={() => onDeed(deed, row)}
    >
      {text}
    </button>
  );
  if (!isStored(row)) return <td class="none" />;
  const usable = row.condition === "valid" || row.condition === "damaged";
  return (
    <td class="deeds">
      {row.condition === "valid" && button("fork", "Fork…")}
      {usable && button(row.pinned ? "unpin" : "pin", row.pinned ? "Unpin…" : "Pin…")}
      {usable && (
        <button
          type="button"
          class="quiet"
          aria-label={`Verify the checkpoint of step ${row.step}`}
          aria-disabled={check?.state === "reading" || check?.state === "waiting"}
          onClick={() => onVerify(row)}
        >
          {(row.bytes ?? 0) > kMostRead ? "Verify…" : "Verify"}
        </button>
      )}
      {row.condition === "valid" && button("export", "Export…")}
      {button("files", "Files…")}
    </td>
  );
}

export function CheckpointTable({
  run,
  rows,
  checks,
  onDeed,
  onVerify,
}: {
  run: Run;
  rows: CheckpointRow[]; // the newest first
  checks: Map<string, Check>;
  onDeed: (deed: Deed, row: CheckpointRow) => void;
  onVerify: (row: CheckpointRow) => void;
}) {
  const newest = run.checkpoint?.name;
  const metric = rows.find((row) => row.metric)?.metric ?? run.metric;
  return (
    <div class="scroll">
      <table class="checkpoints cards">
        <caption class="visually-hidden">Checkpoints, the newest first</caption>
        <thead>
          <tr>
            <th scope="col">Step</th>
            <th scope="col">State</th>
            <th scope="col" class="num">
              {show.metricTitle(metric)}
            </th>
            <th scope="col" class="num">
              Size
            </th>
            <th scope="col">Written</th>
            <th scope="col">Kept because</th>
            <th scope="col">Actions</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr
              key={`${row.name} ${row.at} ${index}`}
              class={row.status}
              data-checkpoint={row.name}
            >
              <td class="step" data-name="Step" title={row.name}>
                {show.count(row.step)}
                {row.name === newest && row.status === "written" && (
                  <span class="small"> newest</span>
                )}
              </td>
              <State row={row} check={checks.get(row.name)} />
              <td class="num" data-name={show.metricTitle(metric)}>
                {show.metric(metric, row.value)}
              </td>
              <td class="num" data-name="Size">
                {show.bytes(row.bytes || null)}
                {(row.shards ?? 0) > 1 && <span class="small">{row.shards} shards</span>}
              </td>
              <Written row={row} />
              <Kept run={run} row={row} />
              <Actions
                row={row}
                check={checks.get(row.name)}
                onDeed={onDeed}
                onVerify={onVerify}
              />
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
