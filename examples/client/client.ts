// Submits a run, watches it, downloads its log and its series, and cancels a second one: what a
// program does with the controller's API. The types come from the API's own document.
//
//   node out/client.js URL TOKEN_FILE RUN_FILE OUTPUT_DIRECTORY
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

type Run = components["schemas"]["Run"];
type Problem = components["schemas"]["Problem"];

const kOver: readonly Run["state"][] = ["succeeded", "stopped", "failed", "cancelled"];
const kLongestSeconds = 300;

function main(url: string, token: string) {
  return createClient<paths>({
    baseUrl: `${url}/api/v1`,
    headers: { Authorization: `Bearer ${token}` },
    querySerializer: { array: { style: "form", explode: false } }, // "state=a,b", as the document says
  });
}
type Api = ReturnType<typeof main>;

// What came, or the problem as an error: one line, with the id by which the controller's log has it.
function taken<T>(answer: { data?: T; error?: Problem }): T {
  if (answer.error) throw new Error(`${answer.error.detail} (request ${answer.error.request_id})`);
  if (answer.data === undefined) throw new Error("the answer has no body");
  return answer.data;
}

async function submit(api: Api, file: string, key: string): Promise<Run> {
  const answer = await api.POST("/runs", {
    params: { header: { "Idempotency-Key": key } },
    body: file as unknown as components["schemas"]["RunFile"], // YAML is sent as it is
    bodySerializer: (text) => text as unknown as string,
    headers: { "Content-Type": "application/yaml" },
  });
  const run = taken(answer);
  if ("dry_run" in run) throw new Error("only a dry run has no id");
  return run;
}

async function shown(api: Api, id: string): Promise<Run> {
  return taken(await api.GET("/runs/{id}", { params: { path: { id } } }));
}

async function watch(api: Api, id: string): Promise<Run> {
  let told = "";
  for (let waited = 0; waited < kLongestSeconds; waited += 0.2) {
    const run = await shown(api, id);
    const line = `${run.state}: ${run.state_text}`;
    if (line !== told) console.log((told = line));
    if (kOver.includes(run.state)) return run;
    await pause(200);
  }
  throw new Error(`${id} is not over after ${kLongestSeconds} s`);
}

async function download(api: Api, id: string, folder: string) {
  mkdirSync(folder, { recursive: true });
  let log = "";
  for (let offset = 0; ; ) {
    const part = taken(
      await api.GET("/runs/{id}/logs", { params: { path: { id }, query: { offset } } }),
    );
    if (part.next === offset) break;
    log += part.text;
    offset = part.next;
  }
  writeFileSync(join(folder, "log.txt"), log);
  const series = taken(await api.GET("/runs/{id}/metrics", { params: { path: { id } } }));
  const rows = series.evaluations.map(([step, seconds, accuracy, loss]) =>
    [step, seconds, accuracy, loss].join(","),
  );
  writeFileSync(join(folder, "evaluations.csv"), ["step,seconds,accuracy,loss", ...rows, ""].join("\n"));
  const told = taken(
    await api.GET("/runs/{id}/time_to_accuracy", {
      params: { path: { id }, query: { thresholds: "0.1,0.5" } },
    }),
  );
  writeFileSync(join(folder, "time_to_accuracy.json"), JSON.stringify(told, null, 2));
}

const [url, tokenFile, runFile, folder] = process.argv.slice(2);
if (!url || !tokenFile || !runFile || !folder) {
  console.error("usage: node out/client.js URL TOKEN_FILE RUN_FILE OUTPUT_DIRECTORY");
  process.exit(2);
}
const api = main(url, readFileSync(tokenFile, "utf8").trim());
const file = readFileSync(runFile, "utf8");
const key = `example-${process.pid}`;
const run = await submit(api, file, key);
console.log(`submitted ${run.id}`);
const ended = await watch(api, run.id);
await download(api, run.id, folder);

const second = await submit(api, file, `${key}-second`);
taken(await api.POST("/runs/{id}/cancel", { params: { path: { id: second.id } } }));
const cancelled = await watch(api, second.id);
const newest = taken(
  await api.GET("/runs", { params: { query: { state: ["cancelled", "succeeded"], limit: 10 } } }),
);
console.log(`${ended.id} ${ended.state}, ${second.id} ${cancelled.state}; ${newest.runs.length} listed`);
