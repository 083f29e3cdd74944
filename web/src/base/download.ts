// A file of the controller, for the reader's disk. The right to ask is a header, which no link can
// send, so that the page fetches the file and hands it to the browser as a whole. What is too large
// for that is fetched by the command line.
import { Refusal } from "./request";
import { session } from "./session";

export const kMostDownload = 64_000_000; // bytes

export async function fetchFile(
  path: string,
  signal: AbortSignal,
  onProgress: (bytes: number) => void,
): Promise<Blob> {
  const token = session.token();
  const response = await fetch(`api/v1/${path}`, {
    signal,
    headers: token == null ? {} : { authorization: `Bearer ${token}` },
    cache: "no-store",
  });
  if (!response.ok) {
    const body = await response.json().catch(() => null);
    if (response.status === 401) session.refused(token);
    throw new Refusal(response.status, String(body?.detail ?? `HTTP status ${response.status}`));
  }
  const parts: BlobPart[] = [];
  let bytes = 0;
  const reader = response.body?.getReader();
  for (;;) {
    const part = await reader?.read();
    if (!part?.value) break;
    parts.push(part.value as Uint8Array<ArrayBuffer>);
    bytes += part.value.length;
    if (bytes > kMostDownload) {
      void reader?.cancel();
      throw new Error("the file has become too large for the page; use the command");
    }
    onProgress(bytes);
  }
  return new Blob(parts, { type: "application/octet-stream" });
}

export function save(file: Blob, name: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // some browsers begin late
}

// A word as a shell takes it.
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
