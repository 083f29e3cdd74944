import type { Run } from "../base/api";
import { hasEnded } from "../base/api";
import * as show from "../base/format";
import { experimentHash, runHash, sweepHash } from "../base/route";
import { stepsDone } from "../base/speed";
import { Figure } from "../parts/figure";
import { RunBadge } from "../parts/icons";
import { LongText } from "../parts/long_text";
import { Progress } from "../runs/columns";
import type { RunActions } from "./actions";
import { Actions } from "./actions";
import type { Headline } from "./headline";
import { headline } from "./headline";
import type { History } from "./history";

// Where the API's count stops.
function sinceNote(run: Run): string | undefined {
  if (run.time_to_accuracy_seconds != null) return "to the target";
  return hasEnded(run) ? "to its end" : undefined;
}

// What else is known, each once: the headline's own figure is left out.
function Figures({ run, shown }: { run: Run; shown: Headline["shows"] }) {
  const title = run.metric === "mlm_accuracy" ? "Accuracy" : show.metricTitle(run.metric);
  const done = stepsDone(run);
  const steps = Math.max(done, run.steps); // an attempt goes on as it began, past a lowered end
  const share = steps > 0 ? `${Math.floor((100 * done) / steps)} %` : undefined;
  const grown = run.progress == null ? undefined : `worth ${show.count(done)} of ${show.count(steps)}`;
  const restarts = run.attempts > 1 ? `steps of ${run.attempts} attempts` : "its steps";
  return (
    <dl class="figures">
      <Figure
        name="Step"
        value={grown ? show.count(run.step) : `${show.count(run.step)} / ${show.count(steps)}`}
        note={grown ?? share}
      />
      {shown !== "value" && <Figure name={title} value={show.metric(run.metric, run.value, run.target)} />}
      <Figure name="Target" value={show.target(run) ?? "none"} />
      {!show.isLoss(run.metric) && (
        <Figure
          name="Baseline"
          value={show.metric(run.metric, run.baseline)}
          note="best constant guess"
        />
      )}
      <Figure
        name="Samples/s"
        value={show.number(run.samples_per_second)}
        note={
          run.tokens_per_second == null
            ? undefined
            : `${show.count(run.tokens_per_second)} tokens/s`
        }
        help="Mean of the newest 20 steps"
      />
      <Figure
        name="Training"
        value={show.duration(run.training_seconds)}
        note={restarts}
        help="Seconds in which steps ran, without waits and starts"
      />
      {shown !== "since_submission" && (
        <Figure
          name="Since submission"
          value={show.duration(run.since_submission_seconds)}
          note={sinceNote(run)}
          help="With queue, starts and down time"
        />
      )}
    </dl>
  );
}

// Of a run that was begun as one of several, before the id of all of them.
const kTagsOfMany = [
  { begin: "sweep-", hash: sweepHash, title: "The sweep that it is a trial of" },
  { begin: "experiment-", hash: experimentHash, title: "The experiment that it is a run of" },
];

function Tag({ tag }: { tag: string }) {
  const many = kTagsOfMany.find(({ begin }) => tag.startsWith(begin) && tag !== begin);
  if (!many) return <span class="tag">{tag}</span>;
  return (
    <a class="tag" href={many.hash(tag.slice(many.begin.length))} title={many.title}>
      {tag}
    </a>
  );
}

function Labels({ run }: { run: Run }) {
  const tags = run.tags ?? []; // an older controller has none
  if (tags.length === 0 && !run.note && !run.archived) return null;
  return (
    <div class="run-labels">
      {run.archived && <span class="tag">archived</span>}
      {tags.map((tag) => (
        <Tag key={tag} tag={tag} />
      ))}
      {run.note && (
        <span class="small">
          <LongText text={show.withoutEscapes(run.note)} />
        </span>
      )}
    </div>
  );
}

// Its task, unless it is the usual one, and what it began with.
function Beginning({ run }: { run: Run }) {
  const clean = (text: string | null) => text && show.withoutEscapes(text);
  const task = run.task != null && run.task !== "pretraining" ? clean(run.task) : null;
  const from = run.from;
  if (task == null && from == null) return null;
  const verb = from?.path == null ? "continues" : "begins with";
  return (
    <div class="small">
      {task}
      {task != null && from != null ? ", " : ""}
      {from == null ? null : from.run == null ? (
        `${verb} ${clean(from.path)}`
      ) : (
        <>
          {verb} {clean(from.checkpoint)} of <a href={runHash(from.run)}>{clean(from.run)}</a>
        </>
      )}
    </div>
  );
}

export function Header({
  run,
  history,
  ...actions
}: RunActions & {
  run: Run;
  history: History;
}) {
  const head = headline(run, history);
  return (
    <>
      <div class="run-head">
        <div class="run-title">
          <h1>{show.withoutEscapes(run.name)}</h1>
          <div class="run-state">
            <span role="status">
              <RunBadge run={run} />
            </span>
            {!(run.error && run.state_text.includes(run.error)) && (
              <span>{show.withoutEscapes(run.state_text)}</span>
            )}
          </div>
          <Beginning run={run} />
          <Labels run={run} />
        </div>
        <Actions run={run} {...actions} />
      </div>
      <section class="summary">
        <div class={`headline ${head.tone}`}>
          <span class="caption">{head.caption}</span>
          <strong>{head.figure}</strong>
          <span class="small">{head.note}</span>
        </div>
        <div class="summary-figures">
          <Figures run={run} shown={head.shows} />
          <Progress run={run} label={false} />
        </div>
      </section>
    </>
  );
}
