import type { RefObject } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Look } from "../base/colours";
import { kMostColours, lookOf, slotsOf } from "../base/colours";
import type { Unit } from "../base/device";
import { unitOf } from "../base/device";
import * as show from "../base/format";
import { useShortcuts } from "../base/keys";
import { go, setQuery } from "../base/route";
import type { Span } from "../parts/chart";
import { Menu } from "../parts/menu";
import { Connection, ErrorPanel } from "../parts/notices";
import { useRefuge } from "../parts/refuge";
import { AddRun } from "./add_run";
import type { Axis, Known, SeriesName } from "./compare_api";
import { axisOf, kAxes, kDefaultSeries, kSeries, seriesOf } from "./compare_api";
import { SeriesChart } from "./curves";
import { configRows, environmentRows, hasHidden, planRows, seedGroups } from "./differences";
import type { Drawing, Subject } from "./drawing";
import { axisTitle } from "./drawing";
import type { Drawn } from "./known";
import { useCharts, useRuns } from "./known";
import { Fingerprints } from "./fingerprint_part";
import { LearningPart } from "./learning_part";
import { SpeedPart } from "./speed_part";
import { Legend } from "./legend";
import { namesOf } from "./names";
import { curveOf, kNoPoints, meanOf } from "./series";
import type { Part } from "./tables";
import { DifferenceTable, FigureTable } from "./tables";

const kMostCompared = kMostColours;

function idsOf(query: URLSearchParams): string[] {
  const all = (query.get("runs") ?? "").split(",").filter((id) => id !== "");
  return [...new Set(all)];
}

const wantedOf = (query: URLSearchParams) => ({
  plans: query.get("plans") === "1",
  environments: query.get("environments") === "1",
});

const setRuns = (ids: string[], more: Record<string, string | null> = {}) =>
  setQuery({ runs: ids.join(","), ...more });

function Tools({
  query,
  axis,
  unit,
  series,
  hasGroups,
  onAdd,
}: {
  query: URLSearchParams;
  axis: Axis;
  unit: Unit;
  series: SeriesName[];
  hasGroups: boolean;
  onAdd: () => void;
}) {
  const toggle = (name: SeriesName, on: boolean) => {
    const next = on ? [...series, name] : series.filter((one) => one !== name);
    const names = seriesOf(next.join(",")).join(",");
    setQuery({ series: names === kDefaultSeries.join(",") ? null : names });
  };
  return (
    <div class="tools compare-tools">
      <button type="button" aria-keyshortcuts="a" onClick={onAdd}>
        Add a run…
      </button>
      <label class="beside">
        By
        <select
          value={axis}
          onChange={({ currentTarget: { value } }) =>
            setQuery({ x: value === "wall" ? null : value })
          }
        >
          {Object.keys(kAxes).map((name) => (
            <option key={name} value={name}>
              {axisTitle(name as Axis, unit)}
            </option>
          ))}
        </select>
      </label>
      <Menu label={`Series: ${series.length}`}>
        <fieldset>
          <legend>Series</legend>
          {Object.entries(kSeries).map(([name, { title }]) => (
            <label key={name}>
              <input
                type="checkbox"
                checked={series.includes(name as SeriesName)}
                onChange={(event) => toggle(name as SeriesName, event.currentTarget.checked)}
              />
              {title}
            </label>
          ))}
        </fieldset>
      </Menu>
      {hasGroups && (
        <label class="beside">
          <input
            type="checkbox"
            checked={query.get("seeds") !== "apart"}
            onChange={({ currentTarget: { checked } }) =>
              setQuery({ seeds: checked ? null : "apart", only: null })
            }
          />
          Mean over seeds
        </label>
      )}
    </div>
  );
}

// One line a run, or a group of runs that differ by seed only.
function subjectsOf(known: Known[], groups: Known[][], looks: Map<string, Look>) {
  const members = new Map<string, Known[]>();
  for (const one of known) {
    const group = groups.find((some) => some.includes(one)) ?? [one];
    const key = group[0]?.run.id ?? one.run.id;
    if (!members.has(key)) members.set(key, group);
  }
  const firsts = [...members.values()].map(([first]) => first?.run).filter((run) => run != null);
  const names = namesOf(firsts);
  const subjects = [...members].flatMap(([key, group]): Subject[] => {
    const look = looks.get(key);
    const seeds = group.length;
    const hidden = seeds > 1 && group.some(({ run }) => hasHidden(run));
    const run = group[0]?.run;
    if (!look || !run) return [];
    const { metric } = run;
    const target = group.every((one) => one.run.target === run.target) ? run.target : null;
    return [{ key, name: names.get(key) ?? key, seeds, hasHidden: hidden, metric, target, look }];
  });
  return { subjects, members };
}

const kFractions: SeriesName[] = ["mfu", "utilisation", "efficiency"];

function drawingsOf(drawn: Drawn, subjects: Subject[], members: Map<string, Known[]>): Drawing[] {
  const all = [...members.values()].flat().map(({ run }) => run);
  const metric = all[0]?.metric;
  const target = all[0]?.target ?? null;
  const alike = metric != null && all.every((run) => run.metric === metric);
  const sameTarget = alike && all.every((run) => run.target === target);
  return drawn.series.map((name) => {
    const curves = subjects.map(({ key }) => {
      const runs = members.get(key) ?? [];
      const points = runs.map(({ run }) => curveOf(drawn.charts, run.id, name));
      return points.length > 1 ? meanOf(key, points) : { ...(points[0] ?? kNoPoints), key };
    });
    if (name !== "metric") {
      const isFraction = kFractions.includes(name);
      return { name, title: kSeries[name].title, isFraction, target: null, curves };
    }
    return {
      name,
      title: alike ? show.metricTitle(metric) : "Metric of each run",
      isFraction: all.every((run) => show.isFraction(run.metric)),
      target: sameTarget ? target : null,
      curves,
    };
  });
}

function spanOf(drawings: Drawing[]): Span {
  const ends = drawings.flatMap(({ curves }) => curves.map(({ x }) => x[x.length - 1] ?? 0));
  const max = Math.max(0, ...ends);
  return { min: 0, max: max > 0 ? max * 1.015 : 1 };
}

// The chart with the most places tells the legend where the cursor is: theirs is one.
function leader(drawings: Drawing[]): string | undefined {
  const count = ({ curves }: Drawing) => curves.reduce((sum, { x }) => sum + x.length, 0);
  return [...drawings].sort((a, b) => count(b) - count(a))[0]?.name;
}

// Who is drawn how, and with whom.
function arrange(known: Known[], apart: boolean, baseId: string | null) {
  const slots = slotsOf(known.map(({ run }) => run.id));
  const looks = new Map([...slots].map(([id, slot]) => [id, lookOf(slot)]));
  const byId = new Map(known.map((one) => [one.run.id, one]));
  const groups = seedGroups(known.map(({ run }) => run)).map((group) =>
    group.map(({ id }) => byId.get(id)).filter((one) => one != null),
  );
  const base = byId.get(baseId ?? "") ?? null;
  const names = namesOf(known.map(({ run }) => run));
  return { looks, names, groups, base, ...subjectsOf(known, apart ? [] : groups, looks) };
}

function partsOf(known: Known[], withPlans: boolean): Part[] {
  const parts = [
    {
      title: "Configuration",
      note: "The run files with defaults filled in, nested keys joined by dots.",
      rows: configRows(known),
    },
    {
      title: "Environment",
      note: "What ran the newest attempt, as far as the controller knows it.",
      rows: environmentRows(known),
    },
  ];
  const isAsked = withPlans && known.every(({ plan }) => plan !== undefined);
  if (!isAsked) return parts;
  const hasPlan = known.some(({ plan }) => plan);
  const note = hasPlan
    ? "What was planned. “not set”: the run has no plan, or its plan no such part."
    : "None of these runs has a plan.";
  return [...parts, { title: "Plan", note, rows: planRows(known) }];
}

// Plans are large, and few look at them.
function AskPlans({ asked }: { asked: boolean }) {
  return (
    <section class="compare-part" aria-labelledby="ask-plans">
      <h2 id="ask-plans">Plan</h2>
      <p class="small">What was planned for these runs, asked for when you want it.</p>
      {asked ? (
        <p class="loading">Loading plans…</p>
      ) : (
        <button type="button" onClick={() => setQuery({ plans: "1" })}>
          Compare the plans
        </button>
      )}
    </section>
  );
}

// The object before, while another says the same.
function useSame<Value>(value: Value): Value {
  const kept = useRef(value);
  if (JSON.stringify(kept.current) !== JSON.stringify(value)) kept.current = value;
  return kept.current;
}

// What the drawings take from the runs: clocks of these go on, and no curve with them.
const drawnOf = (members: Map<string, Known[]>) =>
  [...members].map(([key, all]) => [
    key,
    all.map(({ run }) => [run.id, run.metric, run.target]),
  ]);

function useArranged(known: Known[], query: URLSearchParams, drawn: Drawn | null) {
  const apart = query.get("seeds") === "apart";
  const arranged = useMemo(
    () => arrange(known, apart, query.get("base")),
    [known, apart, query],
  );
  const { members } = arranged;
  const subjects = useSame(arranged.subjects);
  const facts = useSame(drawnOf(members));
  const drawings = useMemo(
    () => (drawn ? drawingsOf(drawn, subjects, members) : []),
    [drawn, subjects, facts],
  );
  const full = useMemo(() => spanOf(drawings), [drawings]);
  return { ...arranged, subjects, drawings, full, first: leader(drawings) };
}

function Comparison({
  known,
  query,
  drawn,
  onRemove,
}: {
  known: Known[];
  query: URLSearchParams;
  drawn: Drawn | null;
  onRemove: (id: string) => void;
}) {
  const [zoom, setZoom] = useState<Span | null>(null);
  const follow = useRef<(x: number | null) => void>(() => undefined);
  const onCursor = useCallback((x: number | null) => follow.current(x), []);
  useEffect(() => setZoom(null), [drawn?.axis]);
  const arranged = useArranged(known, query, drawn);
  const { looks, names, groups, subjects, members, base, drawings, full, first } = arranged;
  const { plans: withPlans, environments: withEnvironments } = wantedOf(query);
  const parts = useMemo(() => partsOf(known, withPlans), [known, withPlans]);
  const asked = query.get("only");
  const only = subjects.some(({ key }) => key === asked) ? asked : null;
  const unit = unitOf(known.map(({ run }) => run));
  const shown = { known, names, looks, base, unit };
  const all = query.get("all") === "1";
  return (
    <>
      <Legend
        subjects={subjects}
        members={members}
        drawings={drawings}
        axis={drawn?.axis ?? "wall"}
        unit={unit}
        follow={follow}
        names={names}
        only={only}
        base={base?.run.id ?? null}
        onOnly={(key) => setQuery({ only: key }, "replace")}
        onPin={(id) => setQuery({ base: id })}
        onRemove={onRemove}
      />
      {!drawn && <p class="loading">Loading curves…</p>}
      {drawings.map((drawing) => (
        <SeriesChart
          key={drawing.name}
          drawing={drawing}
          subjects={subjects}
          axis={drawn?.axis ?? "wall"}
          unit={unit}
          only={only}
          full={full}
          zoom={zoom}
          onZoom={setZoom}
          onCursor={drawing.name === first ? onCursor : undefined}
        />
      ))}
      <FigureTable {...shown} groups={groups} />
      <SpeedPart {...shown} asked={query.get("speed") === "1"} />
      <LearningPart {...shown} asked={query.get("learning") === "1"} />
      <label class="beside only-differences">
        <input
          type="checkbox"
          checked={!all}
          onChange={({ currentTarget: { checked } }) => setQuery({ all: checked ? null : "1" })}
        />
        Only differences
      </label>
      {parts.map((part) => (
        <DifferenceTable key={part.title} part={part} all={all} {...shown}>
          {part.title === "Environment" && (
            <Fingerprints asked={withEnvironments} all={all} {...shown} />
          )}
        </DifferenceTable>
      ))}
      {!parts.some(({ title }) => title === "Plan") && <AskPlans asked={withPlans} />}
    </>
  );
}

function Nothing({ onAdd }: { onAdd: () => void }) {
  return (
    <section class="empty">
      <h2>No runs to compare yet</h2>
      <p>
        Select two to ten runs in the <a href="#/">list of runs</a> and press <kbd>c</kbd>, or add
        them here.
      </p>
      <button type="button" class="primary" onClick={onAdd}>
        Add a run…
      </button>
    </section>
  );
}

// What was asked for and is not here, each to be taken out.
function Missing({
  missing,
  onRemove,
}: {
  missing: Map<string, string>;
  onRemove: (id: string) => void;
}) {
  return (
    <>
      {[...missing].map(([id, why]) => (
        <section key={id} class="notice warning" role="status">
          <strong>{show.withoutEscapes(id.slice(0, 200))} is not compared</strong>
          <p>{show.withoutEscapes(why)}</p>
          <button type="button" onClick={() => onRemove(id)}>
            Take out
          </button>
        </section>
      ))}
    </>
  );
}

function Title({
  place,
  shown,
  asked,
}: {
  place: RefObject<HTMLHeadingElement | null>;
  shown: number;
  asked: number;
}) {
  const most = Math.min(asked, kMostCompared);
  const count = shown < most ? `${shown} of ${most} runs` : `${shown} runs`;
  return (
    <div class="heading">
      <h1 ref={place} tabIndex={-1}>
        Compare
      </h1>
      {shown > 0 && (
        <span class="small" role="status">
          {asked === 1 ? "1 run; add another" : count}
          {asked > most && `, the first ${kMostCompared} of ${asked}`}
        </span>
      )}
    </div>
  );
}

function useTitle(count: number) {
  useEffect(() => {
    const runs = count === 0 ? "runs" : `${count} ${count === 1 ? "run" : "runs"}`;
    document.title = `Compare ${runs} · Regatta`;
  }, [count]);
}

function useKeys(query: URLSearchParams, add: () => void) {
  useShortcuts([
    { keys: "a", does: "Add a run to the comparison", act: add },
    {
      keys: "d",
      does: "Only differences, or everything",
      act: () => setQuery({ all: query.get("all") === "1" ? null : "1" }),
    },
    {
      keys: "Escape",
      does: "All lines, then back to the runs",
      act: () => (query.get("only") ? setQuery({ only: null }, "replace") : go("#/")),
    },
  ]);
}

export function CompareView({ query }: { query: URLSearchParams }) {
  const asked = idsOf(query);
  const ids = asked.slice(0, kMostCompared);
  const [adding, setAdding] = useState(false);
  const heading = useRefuge<HTMLHeadingElement>(adding);
  const [{ known: byId, missing: gone }, health] = useRuns(ids, wantedOf(query));
  const known = useMemo(() => {
    const found = ids.map((id) => byId.get(id)).filter((one) => one != null);
    return found.filter((one, i) => found.findIndex(({ run }) => run.id === one.run.id) === i);
  }, [byId, ids.join(",")]);
  // Of those that the address names now: with none there is no newer answer.
  const missing = new Map([...gone].filter(([id]) => ids.includes(id)));
  const ready = ids.every((id) => byId.has(id) || missing.has(id));
  const [axis, series] = [axisOf(query.get("x")), seriesOf(query.get("series"))];
  const runs = known.map(({ run }) => run);
  const [drawn, drawnHealth] = useCharts(ready ? known : [], axis, series);
  useTitle(ready ? known.length : ids.length);
  const add = () => setAdding(true);
  useKeys(query, add);
  const remove = (id: string) => {
    const aliases = new Set([id, ...ids.filter((one) => byId.get(one)?.run.id === id)]);
    const rest = asked.filter((one) => !aliases.has(one));
    const dropped = (name: string) => (query.get(name) === id ? { [name]: null } : {});
    setRuns(rest, { ...dropped("base"), ...dropped("only") });
    heading.current?.focus(); // its button is gone
  };
  const room = kMostCompared - ids.length;
  return (
    <div class="list compare">
      {ids.length > 0 && (
        <Connection health={drawnHealth.failure != null ? drawnHealth : health} />
      )}
      <Title place={heading} shown={ready ? known.length : 0} asked={asked.length} />
      {ids.length === 0 ? (
        <Nothing onAdd={add} />
      ) : (
        <Tools
          query={query}
          axis={axis}
          unit={unitOf(runs)}
          series={series}
          hasGroups={seedGroups(runs).length > 0}
          onAdd={add}
        />
      )}
      <Missing missing={missing} onRemove={remove} />
      {known.length > 0 && drawnHealth.refusal && (
        <ErrorPanel title="The controller refused the curves" text={drawnHealth.refusal.message} />
      )}
      {ids.length > 0 && !ready && !health.failure && <p class="loading">Loading runs…</p>}
      {known.length > 0 && (
        <Comparison known={known} query={query} drawn={drawn} onRemove={remove} />
      )}
      {adding && (
        <AddRun
          chosen={ids}
          room={room}
          onAdd={(id) => setRuns([...asked, id])}
          onClose={() => setAdding(false)}
        />
      )}
    </div>
  );
}
