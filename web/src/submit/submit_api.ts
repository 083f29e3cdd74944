// Submissions of the API: docs/api.md is the contract.
import type { Plan, Run } from "../base/api";
import { get, postText } from "../base/request";
import type { Schema } from "./schema";

export interface Check {
  name: string;
  good: boolean | null; // null: it cannot be known now
  detail: string;
}

// What would be submitted (POST /runs?dry_run=true).
export interface Preview {
  name: string;
  scheduler: string;
  directory: string;
  after: string[];
  config: Record<string, unknown> | null; // with defaults filled in
  defaults: string; // which files they are from
  plan: Plan | null;
  command: string[];
  script: string | null;
  checks: Check[];
}

// What one submits: the run file as it was written, and what stands beside it.
export interface Submission {
  text: string;
  after: string;
  tags: string;
}

const words = (list: string) =>
  list
    .split(",")
    .map((word) => word.trim())
    .filter((word) => word !== "")
    .join(",");

// JSON is YAML, too, so that one type does for both, and the controller reads either.
const kType = "application/yaml";

function path({ after, tags }: Submission, more: Record<string, string>): string {
  const query = new URLSearchParams(more);
  if (words(after)) query.set("after", words(after));
  if (words(tags)) query.set("tags", words(tags));
  return query.toString() === "" ? "runs" : `runs?${query}`;
}

export const submissions = {
  schema: (signal: AbortSignal) => get<Schema>("run_file_schema", signal),
  preview: (what: Submission, signal: AbortSignal) =>
    postText<Preview>(path(what, { dry_run: "true" }), { type: kType, text: what.text }, signal),
  submit: (what: Submission, key: string) =>
    postText<Run>(path(what, {}), { type: kType, text: what.text }, undefined, key),
};
