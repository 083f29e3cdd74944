import { useRef, useState } from "preact/hooks";
import * as show from "../base/format";
import { useShortcuts } from "../base/keys";
import { runHash } from "../base/route";
import { StateBadge } from "../parts/icons";
import { Name } from "../parts/name";
import { stepRows } from "../parts/rows";
import type { Experiment, ExperimentRun, FigureKey } from "./experiments_api";
import { countsOf, figureText, kFigures } from "./figures";

const kRows = 100; // that are shown at first, and more each time
const kShown: FigureKey[] = ["run_seconds", "samples_per_second", "validation_loss"];

function Row({ run, hasWhy }: { run: ExperimentRun; hasWhy: boolean }) {
  const why = run.error ? show.clipped(run.error) : null;
  return (
    <tr data-run={run.id}>
      <th scope="row">
        <span class="of-card">Run </span>
        {run.place ?? show.kDash}
      </th>
      <td data-name="Layout">
        <Name text={run.layout} />
      </td>
      <td class="num" data-name="Seed">
        {String(run.seed)}
      </td>
      <td data-name="State">
        <StateBadge state={run.state} />
      </td>
      {kShown.map((key) => (
        <td
          key={key}
          class={run.figures[key] == null ? "num none" : "num"}
          data-name={kFigures[key].title}
        >
          {figureText(key, run.figures[key])}
        </td>
      ))}
      <td data-name="Name">
        <a class="row-link" href={runHash(run.id)} aria-label={`Run ${show.drawnName(run.id)}`}>
          <Name text={run.id} />
        </a>
      </td>
      {hasWhy && (
        <td class={why == null ? "reason none" : "reason"} data-name="Why">
          {why != null && (
            <span class="why failure" title={why}>
              {why}
            </span>
          )}
        </td>
      )}
    </tr>
  );
}

// In the order in which they follow each other.
export function RunTable({ experiment }: { experiment: Experiment }) {
  const { runs } = experiment;
  const { all } = countsOf(experiment);
  const [most, setMost] = useState(kRows);
  const place = useRef<HTMLTableElement>(null);
  useShortcuts([
    { keys: "j", does: "Next run", act: () => stepRows(place.current, 1) },
    { keys: "k", does: "Previous run", act: () => stepRows(place.current, -1) },
  ]);
  const hasWhy = runs.some(({ error }) => error);
  const figures = kShown.map((key) => kFigures[key].title);
  const heads = ["Run", "Layout", "Seed", "State", ...figures, "Name", ...(hasWhy ? ["Why"] : [])];
  return (
    <section class="view-part" aria-label="Runs">
      <div class="buckets-head">
        <h2>Runs</h2>
        {all > runs.length && (
          <span class="small">
            {show.count(all - runs.length)} of {show.count(all)} are to come
          </span>
        )}
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Runs, table">
        <table class="experiment-runs dense cards" ref={place}>
          <thead>
            <tr>
              {heads.map((head) => (
                <th
                  key={head}
                  scope="col"
                  class={head === "Seed" || figures.includes(head) ? "num" : undefined}
                >
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {runs.slice(0, most).map((run) => (
              <Row key={run.id} run={run} hasWhy={hasWhy} />
            ))}
          </tbody>
        </table>
      </div>
      {runs.length > most && (
        <p class="small">
          {show.count(most)} of {show.count(runs.length)} shown.{" "}
          <button type="button" class="quiet" onClick={() => setMost(most + kRows)}>
            Show {Math.min(kRows, runs.length - most)} more
          </button>
        </p>
      )}
    </section>
  );
}
