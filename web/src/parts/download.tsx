import { useEffect, useRef, useState } from "preact/hooks";
import { fetchFile, kMostDownload, save } from "../base/download";
import * as show from "../base/format";
import { CopyButton } from "./copy_button";
import { useAction } from "./dialog";

// Fetches a file and hands it to the browser; nothing, where it is too large for that.
export function DownloadButton({
  path,
  name,
  bytes,
  label,
  text = "Download",
  quiet = true,
}: {
  path: string;
  name: string;
  bytes: number;
  label: string; // what it fetches, for those who do not see what it stands beside
  text?: string; // on the button
  quiet?: boolean;
}) {
  const { busy, failure, act } = useAction();
  const [got, setGot] = useState(0);
  const stop = useRef<AbortController | null>(null);
  useEffect(() => () => stop.current?.abort(), []);
  if (bytes > kMostDownload) return null;
  const fetchIt = () =>
    act(async () => {
      const control = new AbortController();
      stop.current = control;
      setGot(0);
      try {
        save(await fetchFile(path, control.signal, setGot), name);
      } catch (error) {
        if (!control.signal.aborted) throw error;
      }
    });
  const shown = busy ? `Stop (${show.bytes(got)})` : text;
  return (
    <>
      <button
        type="button"
        class={quiet ? "quiet" : undefined}
        aria-label={`${shown} ${label}`}
        onClick={busy ? () => stop.current?.abort() : fetchIt}
      >
        {shown}
      </button>
      {failure && (
        <span class="failure" role="alert">
          Not downloaded: {failure}
        </span>
      )}
    </>
  );
}

// A command line to copy.
export function Command({ text }: { text: string }) {
  return (
    <p class="command">
      <code>{text}</code> <CopyButton text={text} what="command" />
    </p>
  );
}
