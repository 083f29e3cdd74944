import { withoutEscapes } from "../base/format";
import type { Checked, Problem } from "./check";
import { goToField } from "./field";
import type { Fault } from "./form";
import { lineIn } from "./run_file";
import type { Group } from "./schema";
import { fieldAt } from "./schema";

// Where the field is that a check is about.
const kFieldOfCheck: Record<string, string> = { dataset: "data.path", from: "from.path" };

export function faultsOf(
  groups: Group[],
  checked: Checked | null,
  refused: Problem | null,
): Fault[] {
  const faults: Fault[] = [];
  const problem = refused ?? checked?.problem ?? null;
  const field = fieldAt(groups, problem?.key ?? null);
  if (problem && field) faults.push({ key: field.key, text: reason(problem) });
  for (const check of checked?.preview?.checks ?? []) {
    const key = kFieldOfCheck[check.name];
    if (check.good === false && key) faults.push({ key, text: withoutEscapes(check.detail) });
  }
  return faults;
}

// At the field, where it is and what it is called need not be said again.
function reason({ message, key }: Problem): string {
  const text = withoutEscapes(message).replace(/^run file(:\d+)?: /, "");
  return key != null && text.startsWith(`${key}: `) ? text.slice(key.length + 2) : text;
}

export function ProblemPanel({
  problem,
  sent,
  groups,
  locked,
  onLine,
}: {
  problem: Problem;
  sent: boolean; // refused when it was submitted; else by a check
  groups: Group[];
  locked: boolean; // the form's fields, to which one then cannot go
  onLine: (line: number) => void;
}) {
  const field = fieldAt(groups, problem.key);
  const line = lineIn(problem.message);
  return (
    <section class="notice error" role="alert">
      <strong>{sent ? "The controller refused this" : "The controller would refuse this"}</strong>
      <p>{withoutEscapes(problem.message)}</p>
      <div class="buttons-left">
        {field && !locked && (
          <button type="button" onClick={() => goToField(field.key)}>
            Go to {field.key}
          </button>
        )}
        {line != null && (
          <button type="button" onClick={() => onLine(line)}>
            Show line {line}
          </button>
        )}
      </div>
    </section>
  );
}
