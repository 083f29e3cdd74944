import type { Run } from "../base/api";
import { Curves } from "./curves";
import type { History } from "./history";
import { Ranks } from "./ranks";

// How it learns, and how its ranks do.
export function CurvesTab({ run, history }: { run: Run; history: History }) {
  return (
    <>
      <Curves run={run} history={history} />
      <Ranks run={run} timeline={history.timeline} />
    </>
  );
}
