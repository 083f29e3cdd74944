import * as show from "../base/format";
import { objectiveText, objectiveTitle, rungsOf } from "./objective";
import type { Sweep } from "./sweeps_api";

// How many trials have come to each rung, and how many went on.
export function RungTable({ sweep }: { sweep: Sweep }) {
  const { objective, rungs, trials, budget } = sweep;
  if (rungs.length === 0) return null;
  return (
    <section class="view-part" aria-label="Rungs">
      <div class="buckets-head">
        <h2>Rungs</h2>
        {budget.factor != null && (
          <span class="small">the best 1 of {show.count(budget.factor)} of a rung goes on</span>
        )}
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Rungs, table">
        <table class="rungs dense cards">
          <thead>
            <tr>
              <th scope="col">Rung</th>
              <th scope="col" class="num">
                Budget
              </th>
              <th scope="col" class="num">
                With a result
              </th>
              <th scope="col" class="num">
                Training
              </th>
              <th scope="col" class="num">
                Promoted
              </th>
              <th scope="col" class="num">
                Best {objectiveTitle(objective)}
              </th>
            </tr>
          </thead>
          <tbody>
            {rungsOf(objective, rungs, trials).map((rung) => (
              <tr key={rung.number}>
                <th scope="row">
                  <span class="of-card">Rung </span>
                  {rung.number}
                </th>
                <td class="num" data-name="Budget">
                  {show.count(rung.budget)} {budget.unit}
                </td>
                <td class="num" data-name="With a result">
                  {show.count(rung.results)}
                </td>
                <td class="num" data-name="Training">
                  {show.count(rung.running)}
                </td>
                <td class="num" data-name="Promoted">
                  {show.count(rung.promoted)}
                </td>
                <td class="num" data-name="Best">
                  {rung.best == null
                    ? show.kDash
                    : `${objectiveText(objective, rung.best.objective)}, trial ${rung.best.trial}`}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
