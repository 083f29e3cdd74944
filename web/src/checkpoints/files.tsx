import { useEffect, useState } from "preact/hooks";
import type { Run } from "../base/api";
import { kMostDownload, quoted } from "../base/download";
import * as show from "../base/format";
import { messageOf } from "../base/request";
import { CopyButton } from "../parts/copy_button";
import { Dialog } from "../parts/dialog";
import { Command, DownloadButton } from "../parts/download";
import type { CheckpointDetails, CheckpointRow } from "./checkpoints_api";
import { checkpointApi, checkpointPath } from "./checkpoints_api";

interface ListedFile {
  name: string;
  bytes: number;
  digest: string | null;
  note?: string;
}

function FileRow({ path, file }: { path: string; file: ListedFile }) {
  return (
    <tr>
      <td>
        {show.withoutEscapes(file.name)}
        {file.note && <span class="small">{file.note}</span>}
      </td>
      <td class="num" data-name="Size">
        {show.bytes(file.bytes)}
      </td>
      <td data-name="XXH3-128">
        <code>{file.digest ?? show.kDash}</code>
      </td>
      <td>
        <DownloadButton
          path={`${path}/files/${encodeURIComponent(file.name)}`}
          name={file.name}
          bytes={file.bytes}
          label={show.withoutEscapes(file.name)}
        />
      </td>
    </tr>
  );
}

// Files below `path` of the API, each to be fetched, or all of them in an archive.
export function FileTable({
  path,
  files,
  archive,
}: {
  path: string; // "…/files" and "…/archive" are below it
  files: ListedFile[];
  archive: string; // the archive's name
}) {
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  return (
    <>
      <div class="scroll">
        <table class="files cards">
          <thead>
            <tr>
              <th scope="col">File</th>
              <th scope="col" class="num">
                Size
              </th>
              <th scope="col">XXH3-128</th>
              <th scope="col">
                <span class="visually-hidden">Download</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {files.map((file) => (
              <FileRow key={file.name} path={path} file={file} />
            ))}
          </tbody>
        </table>
      </div>
      <p class="small">
        All of them: {show.bytes(bytes)}
        {bytes <= kMostDownload ? (
          <>
            {", "}
            <DownloadButton
              path={`${path}/archive`}
              name={archive}
              bytes={bytes}
              label={`all files as ${archive}`}
            />{" "}
            as a tar archive
          </>
        ) : (
          `; the page fetches files of up to ${show.bytes(kMostDownload)}`
        )}
        . At a terminal, each file checked, and going on where it broke off:
      </p>
    </>
  );
}

function listed(details: CheckpointDetails): ListedFile[] {
  return Object.entries(details.files).map(([name, file]) => ({
    name,
    bytes: file.bytes ?? 0,
    digest: file.digest ?? null,
    ...(file.error != null
      ? { note: show.withoutEscapes(file.error) }
      : file.tensors && { note: `${show.count(file.tensors.length)} tensors` }),
  }));
}

function Facts({ details }: { details: CheckpointDetails }) {
  const text = (value: unknown) =>
    show.withoutEscapes(typeof value === "string" ? value : JSON.stringify(value));
  const { files, versions, ...plain } = details.manifest ?? {};
  const all = { ...plain, ...(versions as Record<string, unknown> | undefined) };
  return (
    <details class="fold">
      <summary>Manifest</summary>
      <dl class="details">
        {Object.entries(all).map(([name, value]) => (
          <div key={name}>
            <dt>{show.withoutEscapes(name.replaceAll("_", " "))}</dt>
            <dd>{text(value)}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

export function FilesDialog({
  run,
  row,
  onExport,
  onClose,
}: {
  run: Run;
  row: CheckpointRow;
  onExport: () => void;
  onClose: () => void;
}) {
  const [details, setDetails] = useState<CheckpointDetails | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    checkpointApi.details(run.id, row.name, stop.signal).then(
      setDetails,
      (error: unknown) => !stop.signal.aborted && setFailure(messageOf(error)),
    );
    return () => stop.abort();
  }, [run.id, row.name]);
  const path = checkpointPath(run.id, row.name);
  return (
    <Dialog title={`Checkpoint of step ${row.step}`} wide onClose={onClose}>
      {(close) => (
        <>
          <p class="small">
            <code>{show.withoutEscapes(row.path)}</code> <CopyButton text={row.path} />
          </p>
          {failure && (
            <p class="failure" role="alert">
              {show.withoutEscapes(failure)}
            </p>
          )}
          {!details && !failure && <p role="status">Reading the manifest…</p>}
          {details && (
            <>
              <FileTable path={path} files={listed(details)} archive={`${row.name}.tar`} />
              <Command text={`regatta ckpt download ${quoted(run.id)} ${quoted(row.name)}`} />
              <Facts details={details} />
            </>
          )}
          <div class="buttons">
            {row.condition === "valid" && (
              <button type="button" onClick={onExport}>
                Export…
              </button>
            )}
            <button type="button" class="primary" onClick={close}>
              Close
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
}
