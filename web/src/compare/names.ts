import type { Run } from "../base/api";
import * as show from "../base/format";

// What runs are called beside each other: by name, and where two read alike by their ids as well.
export function namesOf(runs: Pick<Run, "id" | "name">[]): Map<string, string> {
  const plain = runs.map(({ name }) => show.drawnName(name));
  const count = new Map<string, number>();
  for (const name of plain) count.set(name, (count.get(name) ?? 0) + 1);
  return new Map(
    runs.map(({ id }, index) => {
      const name = plain[index] ?? id;
      return [id, (count.get(name) ?? 0) > 1 ? `${name} (${id})` : name];
    }),
  );
}
