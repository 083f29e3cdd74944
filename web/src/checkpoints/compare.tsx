import { useEffect, useState } from "preact/hooks";
import type { Run } from "../base/api";
import { quoted } from "../base/download";
import * as show from "../base/format";
import { messageOf } from "../base/request";
import { Dialog } from "../parts/dialog";
import { Command } from "../parts/download";
import type { Comparison, Fact } from "./checkpoints";
import { compare } from "./checkpoints";
import type { CheckpointRow } from "./checkpoints_api";
import { checkpointApi } from "./checkpoints_api";

const kMostTensors = 200; // rows of differing tensors

function Choice({
  label,
  rows,
  value,
  onChange,
}: {
  label: string;
  rows: CheckpointRow[];
  value: string;
  onChange: (name: string) => void;
}) {
  return (
    <label>
      {label}
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {rows.map((row) => (
          <option key={row.name} value={row.name}>
            step {show.count(row.step)}
            {row.value != null && `, ${show.metric(row.metric ?? "", row.value)}`}
          </option>
        ))}
      </select>
    </label>
  );
}

function Facts({ title, name, facts }: { title: string; name: string; facts: Fact[] }) {
  if (facts.length === 0) return null;
  return (
    <>
      <h3>{title}</h3>
      <div class="scroll">
        <table class="two-compared">
          <thead>
            <tr>
              <th scope="col">{name}</th>
              <th scope="col">A</th>
              <th scope="col">B</th>
            </tr>
          </thead>
          <tbody>
            {facts.slice(0, kMostTensors).map((fact) => (
              <tr key={fact.name}>
                <th scope="row">{show.withoutEscapes(fact.name)}</th>
                <td>{show.withoutEscapes(fact.a)}</td>
                <td>{show.withoutEscapes(fact.b)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {facts.length > kMostTensors && (
        <p class="small">{show.count(facts.length - kMostTensors)} more are left out here.</p>
      )}
    </>
  );
}

function Files({ files }: { files: Comparison["files"] }) {
  return (
    <>
      <h3>Files</h3>
      <div class="scroll">
        <table class="two-compared">
          <thead>
            <tr>
              <th scope="col">File</th>
              <th scope="col">Bytes</th>
              <th scope="col" class="num">
                A
              </th>
              <th scope="col" class="num">
                B
              </th>
            </tr>
          </thead>
          <tbody>
            {files.map((file) => (
              <tr key={file.name}>
                <th scope="row">{show.withoutEscapes(file.name)}</th>
                <td>{file.verdict}</td>
                <td class="num">{show.bytes(file.a)}</td>
                <td class="num">{show.bytes(file.b)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function Result({ found }: { found: Comparison }) {
  const { both, different } = found.tensors;
  if (found.unknown.length > 0) {
    return (
      <div role="status">
        {[...new Set(found.unknown)].map((step) => (
          <p key={step}>
            The manifest of step {show.count(step)} cannot be read; nothing is known of its files.
          </p>
        ))}
      </div>
    );
  }
  return (
    <>
      <p role="status">
        {found.isEqual
          ? "Equal: every file has the same digest, by their manifests."
          : `${found.files.filter(({ verdict }) => verdict !== "same").length} of ` +
            `${found.files.length} files differ, by their manifests.`}{" "}
        {show.count(both)} tensors are in both;{" "}
        {different.length === 0
          ? "types and shapes are the same."
          : `${show.count(different.length)} differ in type or shape, or are in one only.`}
      </p>
      <Facts title="Manifest" name="What" facts={found.facts} />
      <Files files={found.files} />
      <Facts title="Tensors" name="Tensor" facts={different} />
      {found.unread.map((text) => (
        <p key={text} class="failure">
          {show.withoutEscapes(text)}
        </p>
      ))}
    </>
  );
}

// As far as manifests and heads of files say; the values are compared by the command.
export function CompareDialog({
  run,
  rows,
  onClose,
}: {
  run: Run;
  rows: CheckpointRow[]; // at least two, the oldest first
  onClose: () => void;
}) {
  const [choices] = useState(() => rows.slice().reverse());
  const [a, setA] = useState(choices[1]?.name ?? "");
  const [b, setB] = useState(choices[0]?.name ?? "");
  const [found, setFound] = useState<Comparison | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    setFound(null); // it is of others
    setFailure(null);
    Promise.all([
      checkpointApi.details(run.id, a, stop.signal),
      checkpointApi.details(run.id, b, stop.signal),
    ]).then(
      ([left, right]) => setFound(compare(left, right)),
      (error: unknown) => {
        if (stop.signal.aborted) return;
        setFound(null);
        setFailure(messageOf(error));
      },
    );
    return () => stop.abort();
  }, [run.id, a, b]);
  return (
    <Dialog title="Compare two checkpoints" wide onClose={onClose}>
      {(close) => (
        <>
          <div class="form three">
            <Choice label="A" rows={choices} value={a} onChange={setA} />
            <Choice label="B" rows={choices} value={b} onChange={setB} />
          </div>
          {failure && (
            <p class="failure" role="alert">
              Not compared: {show.withoutEscapes(failure)}
            </p>
          )}
          {!found && !failure && <p role="status">Reading the manifests…</p>}
          {found && <Result found={found} />}
          <p class="small">How much the values differ, tensor by tensor:</p>
          <Command text={`regatta ckpt diff ${quoted(run.id)} ${quoted(a)} ${quoted(b)}`} />
          <div class="buttons">
            <button type="button" class="primary" onClick={close}>
              Close
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
}
