import { useState } from "preact/hooks";
import * as show from "../base/format";
import { runHash } from "../base/route";
import { Figure } from "../parts/figure";
import { When } from "../parts/when";
import { useRefuge } from "../parts/refuge";
import { Asking } from "../run/asking";
import { SweepBadge } from "./badges";
import { directionText, objectiveText, objectiveTitle } from "./objective";
import type { Sweep, SweepSummary } from "./sweeps_api";
import { sweepsApi } from "./sweeps_api";

const clean = show.withoutEscapes;

type OnChange = (next: Partial<Sweep>) => void;

function StopButton({ sweep, onChange }: { sweep: SweepSummary; onChange: OnChange }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" class="danger" onClick={() => setOpen(true)}>
        Stop sweep
      </button>
      {open && (
        <Asking
          title={`Stop ${sweep.name}?`}
          does="Stop the sweep"
          doing="Stopping…"
          refused="Not stopped"
          isDangerous
          task={async (key) => onChange(await sweepsApi.stop(sweep.id, key))}
          onClose={() => setOpen(false)}
        >
          <p>
            No further trial is started or promoted, and those that train are cancelled: each
            writes a checkpoint and ends. What was reached stays: runs, metrics and checkpoints.
          </p>
        </Asking>
      )}
    </>
  );
}

// Tried of planned, with what stands out.
export function Tried({ sweep, label = true }: { sweep: SweepSummary; label?: boolean }) {
  const { tried, planned } = sweep.counts;
  const look = sweep.state === "done" ? "succeeded" : sweep.state;
  const text = `${show.count(tried)} of ${show.count(planned)} trials tried`;
  return (
    <div class={`progress ${look}`} title={text}>
      <progress max={1} value={planned > 0 ? Math.min(1, tried / planned) : 0} aria-label={text} />
      {label && (
        <span class="small">
          {show.count(tried)} / {show.count(planned)}
        </span>
      )}
    </div>
  );
}

export const kMethods: Record<SweepSummary["method"], string> = {
  grid: "grid",
  random: "random search",
  asha: "ASHA",
  tpe: "TPE",
};
export const methodText = ({ method }: SweepSummary) =>
  Object.hasOwn(kMethods, method) ? kMethods[method] : clean(method);

function budgetText({ min, max, factor, unit }: Sweep["budget"]): string {
  if (max == null) return "the run’s own";
  const range = min == null ? show.count(max) : `${show.count(min)} to ${show.count(max)}`;
  return `${range} ${unit}${factor == null ? "" : `, × ${show.count(factor)}`}`;
}

function Best({ sweep }: { sweep: Sweep }) {
  const { best, counts, objective } = sweep;
  const of = `of ${show.count(counts.tried)} tried`;
  return (
    <div class={best ? "headline reached" : "headline"}>
      <span class="caption">
        Best {objectiveTitle(objective)}
        {sweep.state === "running" && " so far"}
      </span>
      <strong>{objectiveText(objective, best?.objective ?? null)}</strong>
      <span class="small">
        {best ? (
          <>
            trial {best.trial} {of}, <a href={runHash(best.run)}>{show.drawnName(best.run)}</a>
          </>
        ) : (
          `no result ${of}`
        )}
      </span>
      <span class="small">{directionText(objective)}</span>
    </div>
  );
}

export function SweepHeader({ sweep, onChange }: { sweep: Sweep; onChange: OnChange }) {
  const { counts } = sweep;
  const heading = useRefuge<HTMLHeadingElement>(sweep.state); // the button goes when it is over
  return (
    <>
      <div class="run-head">
        <div class="run-title">
          <h1 ref={heading}>{clean(sweep.name)}</h1>
          <div class="run-state">
            <span role="status">
              <SweepBadge sweep={sweep} />
            </span>
            <span>
              {methodText(sweep)}, since <When at={sweep.created} />
              {sweep.ended != null && (
                <>
                  , ended <When at={sweep.ended} />
                </>
              )}
            </span>
          </div>
        </div>
        {sweep.state === "running" && !sweep.stops && <StopButton sweep={sweep} onChange={onChange} />}
      </div>
      <section class="summary">
        <Best sweep={sweep} />
        <div class="summary-figures">
          <dl class="figures">
            <Figure
              name="Tried"
              value={`${show.count(counts.tried)} / ${show.count(counts.planned)}`}
              note="of those planned"
            />
            <Figure
              name="Running"
              value={show.count(counts.running)}
              note={`of ${show.count(sweep.concurrency)} at once`}
            />
            <Figure name="Paused" value={show.count(counts.paused)} />
            <Figure name="Finished" value={show.count(counts.finished)} />
            <Figure name="Failed" value={show.count(counts.failed)} />
            <Figure name="Budget of a trial" value={budgetText(sweep.budget)} />
            <Figure name="Seed" value={String(sweep.seed)} />
            <Figure name="Owner" value={sweep.owner ?? show.kDash} />
          </dl>
          <Tried sweep={sweep} label={false} />
        </div>
      </section>
    </>
  );
}
