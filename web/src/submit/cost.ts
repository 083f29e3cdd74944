// What a run would take, as far as its preview tells.
import { count, duration, kDash } from "../base/format";
import { valueAt } from "./run_file";
import type { Preview } from "./submit_api";

// A time limit of Slurm in seconds: minutes, hours:minutes:seconds, days-hours:minutes:seconds.
export function secondsOfLimit(limit: unknown): number | null {
  const match = /^(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?$/.exec(String(limit));
  if (!match) return null;
  const [, days, first, second, third] = match;
  if (days == null && second == null) return Number(first) * 60;
  if (days == null && third == null) return null;
  return (
    ((Number(days ?? 0) * 24 + Number(first)) * 60 + Number(second ?? 0)) * 60 + Number(third ?? 0)
  );
}

interface Cost {
  name: string;
  value: string;
  note: string;
}

export function costsOf({ config, plan, scheduler }: Preview): Cost[] {
  const found: Cost[] = [];
  if (config == null) return found;
  const steps = Number(valueAt(config, "steps"));
  const step = plan?.timeline?.step_seconds;
  if (plan && step != null && Number.isFinite(steps)) {
    const seconds = step * steps;
    // As everywhere on the page: the device of a rank is a GPU, unless the run says otherwise.
    const unit = config.device === "cpu" ? "rank" : "GPU";
    // Which goes on at the step of its checkpoint; the preview does not tell which that is.
    const goesOn = valueAt(config, "from.optimizer") === true;
    const most = goesOn ? "at most " : "";
    const less = goesOn ? ", less those that the checkpoint has" : "";
    found.push(
      { name: "Predicted step", value: duration(step), note: `on ${count(plan.ranks)} ranks` },
      {
        name: "Training",
        value: most + duration(seconds),
        note: `${count(steps)} steps${less}, without start, evaluations and checkpoints`,
      },
      {
        name: `${unit}-hours`,
        value: most + hours((seconds * plan.ranks) / 3600),
        note: "of that time",
      },
    );
  }
  const limit = secondsOfLimit(valueAt(config, "slurm.time_limit"));
  const nodes = Number(/(\d+)$/.exec(String(valueAt(config, "slurm.nodes") ?? ""))?.[1] ?? NaN);
  if (scheduler !== "local" && limit != null && Number.isFinite(nodes)) {
    found.push({
      name: "A job takes at most",
      value: `${hours((limit / 3600) * nodes)} node-hours`,
      note: `${count(nodes)} ${nodes === 1 ? "node" : "nodes"} for ${duration(limit)}`,
    });
  }
  return found;
}

function hours(value: number): string {
  if (!Number.isFinite(value)) return kDash;
  return value >= 100 ? count(value) : String(Number(value.toPrecision(3)));
}
