import type { Run } from "../base/api";
import type { History } from "../run/history";

// Time to accuracy.
export function TimeTab({ run }: { run: Run; history: History }) {
  return <p class="nothing">{run.name}</p>;
}
