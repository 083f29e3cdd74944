// Facts that differ between two runs, which a cause stands on.
import * as show from "../base/format";
import { textOf } from "../parts/values";

export interface Evidence {
  key: string;
  values: [unknown, unknown];
}
export interface Cause {
  head: string;
  evidence: Evidence[];
}

// Measured figures are rounded, seeds and sizes are not.
const valueOf = (value: unknown) =>
  show.clipped(
    typeof value === "number" && !Number.isInteger(value) ? show.number(value, 4) : textOf(value),
  );

export function CauseList({ causes }: { causes: Cause[] }) {
  return (
    <ul>
      {causes.map(({ head, evidence }) => (
        <li key={head}>
          {show.withoutEscapes(head)}
          <ul class="small">
            {evidence.map(({ key, values }) => (
              <li key={key}>
                {show.withoutEscapes(key)}: {valueOf(values[0])} | {valueOf(values[1])}
              </li>
            ))}
          </ul>
        </li>
      ))}
    </ul>
  );
}
