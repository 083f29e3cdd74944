import { useEffect, useState } from "preact/hooks";
import * as show from "../base/format";
import { useShortcuts } from "../base/keys";
import { usePoll } from "../base/poll";
import { go, runHash } from "../base/route";
import { Command } from "../parts/download";
import { Figure } from "../parts/figure";
import { StateBadge } from "../parts/icons";
import { Connection, ErrorPanel } from "../parts/notices";
import { Done, ExperimentBadge } from "./badges";
import type { Experiment } from "./experiments_api";
import { experimentsApi, kFigureKeys } from "./experiments_api";
import { countsOf, meanOf, notGood, progressOf, underWay } from "./figures";
import { LayoutTable } from "./layout_table";
import { RunTable } from "./run_table";
import { SeedDrawing } from "./seed_drawing";

const clean = show.withoutEscapes;
const kEvery = 2000; // ms
const kEveryDone = 15_000;

function useExperiment(id: string) {
  const [experiment, setExperiment] = useState<Experiment | null>(null);
  const isDone = experiment != null && progressOf(countsOf(experiment)) === "done";
  const health = usePoll(id, isDone ? kEveryDone : kEvery, async (signal) => {
    setExperiment(await experimentsApi.experiment(id, signal));
  });
  return { experiment, health };
}

function NoExperiment({ id }: { id: string }) {
  return (
    <section class="empty">
      <h1>No such experiment</h1>
      <p>
        No run has the tag <code>experiment-{clean(id)}</code>.{" "}
        <a href="#/experiments">All experiments</a>
      </p>
    </section>
  );
}

// Which run is under way, or how the next one is begun.
function Now({ experiment }: { experiment: Experiment }) {
  const counts = countsOf(experiment);
  const runs = underWay(experiment);
  if (progressOf(counts) === "waits") {
    return (
      <section class="notice" role="status">
        <strong>No run is under way</strong>
        <p>
          {show.count(counts.all - counts.runs)} of {show.count(counts.all)} runs are to come. The
          command that began them submits each when the one before is over; if it has ended, it goes
          on with
        </p>
        <Command text={`regatta experiment parallel FILE --id ${clean(experiment.experiment)}`} />
      </section>
    );
  }
  if (runs.length === 0) return null;
  return (
    <section class="notice" role="status">
      {runs.slice(0, 3).map((run) => (
        <p key={run.id} class="under-way">
          <strong>
            Run {run.place ?? show.kDash} of {show.count(counts.all)}
          </strong>
          <span>
            {show.drawnName(run.layout)}, seed {String(run.seed)}
          </span>
          <StateBadge state={run.state} />
          <a href={runHash(run.id)}>{show.drawnName(run.id)}</a>
        </p>
      ))}
      {runs.length > 3 && <p>and {show.count(runs.length - 3)} more that are not over</p>}
    </section>
  );
}

function whereText({ hosts, device }: Experiment): string {
  const nodes = hosts.length > 0 ? `on ${hosts.map(show.drawnName).join(", ")}` : "";
  return [nodes, device == null ? "" : clean(device)].filter((part) => part !== "").join(", ");
}

const agreementText = (isGood: boolean | null) =>
  isGood == null ? "not known" : isGood ? "agrees" : "DOES NOT AGREE";

function Header({ experiment }: { experiment: Experiment }) {
  const { agreement, layouts, runs, batch_size: batch } = experiment;
  const counts = countsOf(experiment);
  const progress = progressOf(counts);
  const wrong = notGood(experiment).length;
  const where = whereText(experiment);
  return (
    <>
      <div class="run-head">
        <div class="run-title">
          <h1>Experiment {clean(experiment.experiment)}</h1>
          <div class="run-state">
            <span role="status">
              <ExperimentBadge progress={progress} />
            </span>
            {where !== "" && <span>{where}</span>}
          </div>
        </div>
      </div>
      <section class="summary">
        <div class={progress === "done" && wrong === 0 ? "headline reached" : "headline"}>
          <span class="caption">Runs that are over</span>
          <strong>
            {show.count(counts.finished)} / {show.count(counts.all)}
          </strong>
          <span class="small">
            {wrong > 0
              ? `${show.count(wrong)} did not succeed`
              : counts.finished > 0 && "all of them succeeded"}
          </span>
        </div>
        <div class="summary-figures">
          <dl class="figures">
            <Figure name="Layouts" value={show.count(layouts.length)} />
            <Figure name="Seeds" value={show.count(new Set(runs.map(({ seed }) => seed)).size)} />
            <Figure name="Samples a step" value={show.count(batch)} />
            <Figure name="Did not succeed" value={show.count(wrong)} note={wrong > 0 ? "left out" : undefined} />
            <Figure
              name="Noise scale"
              value={agreementText(agreement.noise_scale)}
              note="between layouts"
              help="In each seed, the 95 % intervals of the layouts must have a common part, as a layout changes no gradient"
            />
            <Figure
              name="Loss"
              value={
                agreement.loss_difference == null
                  ? "not known"
                  : show.number(agreement.loss_difference, 2)
              }
              note="largest difference"
              help="Between validation losses of one seed, at equal samples"
            />
          </dl>
          <Done finished={counts.finished} all={counts.all} progress={progress} label={false} />
        </div>
      </section>
    </>
  );
}

function Shown({ experiment, query }: { experiment: Experiment; query: URLSearchParams }) {
  const { agreement, layouts } = experiment;
  const figures = kFigureKeys.filter((key) => layouts.some((layout) => meanOf(layout, key) != null));
  const apart = agreement.sentences.find((text) => text.includes("DO NOT AGREE"));
  return (
    <>
      <Header experiment={experiment} />
      {agreement.noise_scale === false && (
        <ErrorPanel title="The layouts did not train the same" text={apart ?? ""} />
      )}
      <Now experiment={experiment} />
      <LayoutTable experiment={experiment} />
      {figures.length > 0 && <SeedDrawing {...{ experiment, figures, query }} />}
      <RunTable experiment={experiment} />
    </>
  );
}

export function ExperimentView({ id, query }: { id: string; query: URLSearchParams }) {
  const { experiment, health } = useExperiment(id);
  const isGone = health.refusal?.status === 404;
  const counts = experiment && countsOf(experiment);
  useEffect(() => {
    const progress = counts ? `${counts.finished} / ${counts.all} ` : "";
    const name = isGone ? "No such experiment" : `Experiment ${show.drawnName(id)}`;
    document.title = `${isGone ? "" : progress}${name} · Regatta`;
  }, [id, counts?.finished, counts?.all, isGone]);
  useShortcuts([
    { keys: "Escape", does: "Back to the experiments", act: () => go("#/experiments") },
  ]);
  if (isGone) return <NoExperiment id={id} />;
  return (
    <div class="wide-view">
      <a class="back" href="#/experiments">
        ← All experiments
      </a>
      <Connection health={health} />
      {health.refusal && (
        <ErrorPanel title="The controller refused" text={clean(health.refusal.message)} />
      )}
      {!experiment && !health.failure && !health.refusal && (
        <p class="loading">Loading experiment…</p>
      )}
      {experiment && <Shown experiment={experiment} query={query} />}
    </div>
  );
}
