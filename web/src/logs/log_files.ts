// Logs by what wrote them.
import * as show from "../base/format";
import type { LogFile } from "./logs_api";

const kTitles: Record<string, string> = {
  process: "process",
  ranks: "all ranks",
  script: "batch script",
  stacks: "stacks of ranks that stood still",
  hang: "report of a hang",
};

function title(file: LogFile): string {
  const name = show.withoutEscapes(file.name);
  const what =
    file.kind === "attempt"
      ? file.rank == null
        ? (name.split("/").pop() ?? name)
        : `rank ${file.rank}`
      : (kTitles[file.kind] ?? name);
  const job = file.job == null ? "" : `, job ${show.withoutEscapes(file.job)}`;
  const restart = file.restart ? `, restart ${file.restart}` : "";
  return `${what}${job}${restart} (${show.bytes(file.bytes)})`;
}

function group(file: LogFile): string {
  if (file.attempt != null) return `Attempt ${file.attempt}`;
  return file.launch == null ? "Others" : `Launch ${file.launch}`;
}

interface LogGroup {
  name: string;
  files: { name: string; title: string }[];
}

// The newest attempt or launch first; in it, as the API has them.
export function groupsOf(files: LogFile[]): LogGroup[] {
  const groups = new Map<string, LogGroup>();
  for (const file of files) {
    const name = group(file);
    const found = groups.get(name) ?? { name, files: [] };
    found.files.push({ name: file.name, title: title(file) });
    groups.set(name, found);
  }
  return [...groups.values()].reverse();
}
