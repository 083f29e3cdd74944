import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Checkpoint, Run } from "./api";
import { api, hasEnded } from "./api";
import * as show from "./format";
import { usePoll } from "./poll";

function CopyButton({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), 1500);
    return () => clearTimeout(timer);
  }, [copied]);
  // Browsers offer the clipboard to https and loopback only.
  if (!navigator.clipboard) return null;
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => setCopied(true),
      () => undefined,
    );
  return (
    <button type="button" class="quiet" aria-label={`Copy path ${text}`} onClick={copy}>
      {copied ? "Copied" : "Copy"}
    </button>
  );
}

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

export function CheckpointTable({
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

const kMostLog = 512 * 1024; // characters kept on the page; the file has them all

export function LogTail({ run }: { run: Run }) {
  const execution = run.attempt?.execution ?? "";
  const tail = useRef({ execution: "", offset: 0, text: "", cut: false });
  const [text, setText] = useState<string | null>(null);
  const box = useRef<HTMLPreElement>(null);
  const follow = useRef(true);

  usePoll(`${run.id} ${execution}`, hasEnded(run) ? 5000 : 1000, async (signal) => {
    const state = tail.current;
    if (state.execution !== execution) {
      Object.assign(state, { execution, offset: 0, text: "", cut: false }); // a new attempt's log
    }
    for (;;) {
      const log = await api.log(run.id, state.offset, signal);
      if (log.next < state.offset) Object.assign(state, { offset: 0, text: "", cut: false });
      const done = log.text === "" || log.next <= state.offset;
      state.offset = log.next;
      state.text += log.text;
      if (state.text.length > kMostLog) {
        const start = state.text.indexOf("\n", state.text.length - kMostLog) + 1;
        Object.assign(state, { text: state.text.slice(start), cut: true });
      }
      if (done) break;
    }
    setText(state.text);
  });

  useLayoutEffect(() => {
    if (follow.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  const onScroll = () => {
    const element = box.current;
    if (!element) return;
    follow.current = element.scrollHeight - element.scrollTop - element.clientHeight < 24;
  };
  if (text == null) return <p class="loading">Loading log…</p>;
  if (text === "") return <p class="nothing">The log is empty.</p>;
  return (
    <>
      {tail.current.cut && <p class="small">Older lines are left out here; the file has them.</p>}
      <pre
        class="log"
        ref={box}
        onScroll={onScroll}
        tabIndex={0}
        aria-label="Log of the newest attempt"
      >
        {show.withoutEscapes(text)}
      </pre>
    </>
  );
}

export function Details({ run }: { run: Run }) {
  const attempt = run.attempt;
  const rows: [string, string][] = [
    ["Run", run.id],
    ["Directory", run.directory],
    ["Submitted", show.when(run.created_at)],
    ["First step", show.when(run.started_at)],
    ["Ended", show.when(run.ended_at)],
    ["Samples seen", show.count(run.samples)],
    ["Training loss", show.number(run.loss)],
  ];
  if (attempt) {
    rows.push([
      "Attempt",
      `${attempt.number}, ${attempt.state}, execution ${attempt.execution ?? show.kDash}`,
    ]);
    if (attempt.process != null) rows.push(["Process", String(attempt.process)]);
    if (attempt.exit_code != null) rows.push(["Exit code", String(attempt.exit_code)]);
    if (attempt.reason) rows.push(["Reason", attempt.reason]);
  }
  return (
    <>
      <dl class="details">
        {rows.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <h2>Run file</h2>
      <pre class="log config" tabIndex={0}>
        {JSON.stringify(run.config, null, 2)}
      </pre>
    </>
  );
}
