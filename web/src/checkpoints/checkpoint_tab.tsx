import type { Checkpoint, Run } from "../base/api";
import { hasEnded } from "../base/api";
import * as show from "../base/format";
import { CopyButton } from "../parts/copy_button";

// How fast it reached the disk.
function rate(checkpoint: Checkpoint): string {
  const seconds = (checkpoint.write_seconds ?? 0) + (checkpoint.sync_seconds ?? 0);
  return seconds > 0 && checkpoint.bytes ? ` ${show.bytes(checkpoint.bytes / seconds)}/s` : "";
}

// Why a checkpoint stays when others go, or is none.
function keptBecause(checkpoint: Checkpoint): string {
  if (checkpoint.message) return checkpoint.message;
  if (checkpoint.goes) return "goes next";
  return checkpoint.kept_because?.length ? checkpoint.kept_because.join(", ") : "–";
}

export function CheckpointTab({
  run,
  checkpoints,
}: {
  run: Run;
  checkpoints: Checkpoint[] | null;
}) {
  if (checkpoints == null) return <p class="loading">Loading checkpoints…</p>;
  if (checkpoints.length === 0) {
    const wait = hasEnded(run)
      ? "No checkpoint."
      : "No checkpoint yet; they appear as they are written.";
    return <p class="nothing">{wait}</p>;
  }
  const newest = run.checkpoint?.name;
  const kept = checkpoints.filter((checkpoint) => checkpoint.status !== "removed");
  const removed = checkpoints.length - kept.length;
  return (
    <>
      <div class="scroll">
        <table class="checkpoints">
          <thead>
            <tr>
              <th scope="col" class="num">
                Step
              </th>
              <th scope="col">Status</th>
              <th scope="col" class="num">
                Size
              </th>
              <th scope="col" class="num" title="Training stood still">
                Stall
              </th>
              <th scope="col" class="num">
                Written in
              </th>
              <th scope="col">At</th>
              <th scope="col">Kept</th>
              <th scope="col">Path</th>
            </tr>
          </thead>
          <tbody>
            {kept.reverse().map((checkpoint, index) => (
              <tr key={`${checkpoint.name} ${checkpoint.at} ${index}`} class={checkpoint.status}>
                <td class="num">{show.count(checkpoint.step)}</td>
                <td>
                  {checkpoint.status}
                  {checkpoint.name === newest && checkpoint.status === "written" && (
                    <span class="small"> newest</span>
                  )}
                </td>
                <td class="num">{show.bytes(checkpoint.bytes || null)}</td>
                <td class="num" title={`copy ${show.duration(checkpoint.copy_seconds)}`}>
                  {show.duration(checkpoint.stall_seconds)}
                </td>
                <td
                  class="num"
                  title={`write ${show.duration(checkpoint.write_seconds)}, sync ${show.duration(checkpoint.sync_seconds)}`}
                >
                  {show.duration(checkpoint.seconds)}
                  <span class="small">{rate(checkpoint)}</span>
                </td>
                <td class="nowrap">{show.when(checkpoint.at)}</td>
                <td
                  class="why"
                  colSpan={checkpoint.status === "failed" ? 2 : 1}
                  title={checkpoint.pinned?.reason || undefined}
                >
                  {keptBecause(checkpoint)}
                </td>
                {checkpoint.status !== "failed" && (
                  <td class="path">
                    <code>{checkpoint.path}</code> <CopyButton text={checkpoint.path} />
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {removed > 0 && (
        <p class="small">
          {removed === 1 ? "One older checkpoint was" : `${removed} older checkpoints were`} removed
          to save space.
        </p>
      )}
    </>
  );
}
