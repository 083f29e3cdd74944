import type { ComponentChildren } from "preact";
import type { Run } from "../base/api";
import type { Look } from "../base/colours";
import type { Unit } from "../base/device";
import * as show from "../base/format";
import { runHash } from "../base/route";
import { RunBadge } from "../parts/icons";
import { Name } from "../parts/name";
import { Swatch } from "../parts/swatch";
import type { Known } from "./compare_api";
import type { Row } from "./differences";
import type { Figure } from "./figures";
import { against, figuresIn, spread } from "./figures";
import { commonBegin } from "./fingerprints";

export interface Shown {
  known: Known[]; // in the order of the address
  names: Map<string, string>; // by id
  looks: Map<string, Look>;
  base: Known | null;
  unit: Unit; // of hours
}

export function Heading({ of: { run }, names, looks }: Pick<Shown, "names" | "looks"> & { of: Known }) {
  const look = looks.get(run.id);
  return (
    <span class="run-name">
      {look && <Swatch look={look} />}
      <a href={runHash(run.id)} title={run.id}>
        <Name text={names.get(run.id) ?? run.id} />
      </a>
    </span>
  );
}

function Meanings({ figures }: { figures: Figure[] }) {
  return (
    <details class="fold">
      <summary>What the figures are</summary>
      <dl class="details">
        {figures.map(({ key, title, help }) => (
          <div key={key}>
            <dt>{title}</dt>
            <dd>{help}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

// Of runs of several metrics each value says whose it is.
function metricName(figure: Figure, run: Run | undefined, isMixed: boolean) {
  if (!isMixed || figure.key !== "value" || !run) return null;
  return <span class="small">{show.metricTitle(run.metric)}</span>;
}

function Means({
  group,
  figures,
  isMixed,
}: {
  group: Known[];
  figures: Figure[];
  isMixed: boolean;
}) {
  const first = group[0]?.run;
  return (
    <tr class="mean" data-mean={first?.id}>
      <th scope="row">
        Mean ± deviation
        <span class="small">
          of the {group.length} seeds of {show.withoutEscapes(first?.name ?? "")}
        </span>
      </th>
      <td data-name="State">{show.kDash}</td>
      {figures.map((figure) => {
        const { mean, around } = spread(figure, group);
        return (
          <td key={figure.key} class="num" data-name={figure.title} data-key={figure.key}>
            {mean}
            <span class="small">{around}</span>
            {metricName(figure, first, isMixed)}
          </td>
        );
      })}
    </tr>
  );
}

// What the runs came to, one a line, and how far from the baseline.
export function FigureTable({ groups, ...shown }: Shown & { groups: Known[][] }) {
  const { known, names, base } = shown;
  const figures = figuresIn(shown.unit);
  const name = base && names.get(base.run.id);
  const isMixed = known.some(({ run }) => run.metric !== known[0]?.run.metric);
  return (
    <section class="compare-part" aria-labelledby="figures-title">
      <h2 id="figures-title">Figures</h2>
      <p class="small">
        {name == null
          ? "Pin a baseline in the legend to see differences."
          : `Below each figure: the difference from ${name}, the baseline.`}
      </p>
      <div class="scroll" role="region" tabIndex={0} aria-label="Figures, table">
        <table class="figure-table cards">
          <thead>
            <tr>
              <th scope="col">Run</th>
              <th scope="col">State</th>
              {figures.map(({ key, title }) => (
                <th key={key} scope="col" class="num">
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {known.map((one) => (
              <tr key={one.run.id} data-run={one.run.id}>
                <th scope="row">
                  <Heading of={one} {...shown} />
                  {one === base && <span class="mark">baseline</span>}
                </th>
                <td data-name="State">
                  <RunBadge run={one.run} />
                </td>
                {figures.map((figure) => (
                  <td key={figure.key} class="num" data-name={figure.title} data-key={figure.key}>
                    {figure.text(figure.of(one), one.run)}
                    {metricName(figure, one.run, isMixed)}
                    {base != null && one !== base && (
                      <span class="small">{against(figure, one, base) ?? show.kDash}</span>
                    )}
                  </td>
                ))}
              </tr>
            ))}
            {groups.map((group) => (
              <Means key={`mean ${group[0]?.run.id}`} {...{ group, figures, isMixed }} />
            ))}
          </tbody>
        </table>
      </div>
      <Meanings figures={figures} />
    </section>
  );
}

const kMostLetters = 160; // of a value that is shown at once

// `skipped`: letters that others begin with, too.
function Value({ text, skipped }: { text: string | null | undefined; skipped: number }) {
  if (text === undefined) return <span class="small">not known</span>;
  if (text == null) return <span class="small">not set</span>;
  const plain = show.withoutEscapes(text);
  if (plain.length <= kMostLetters) return <>{plain === "" ? '""' : plain}</>;
  const from = Math.min(skipped, plain.length - kMostLetters);
  return (
    <details class="fold">
      <summary>
        {from > 0 && "…"}
        {plain.slice(from, from + kMostLetters)}
        {from + kMostLetters < plain.length && "…"}
      </summary>
      {plain}
    </details>
  );
}

// What is not as in the baseline, or else as in the first run, is marked.
export function ValueCells({ row, ...shown }: Pick<Shown, "known" | "base"> & { row: Row }) {
  const { known, base } = shown;
  const from = base ? Math.max(0, known.indexOf(base)) : 0;
  const isLong = row.differs && row.values.some((text) => (text?.length ?? 0) > kMostLetters);
  const skipped = isLong
    ? commonBegin(row.values.map((text) => (text == null ? text : show.withoutEscapes(text))))
    : 0;
  return (
    <>
      {row.values.map((value, index) => {
        const own = row.values[from];
        const other = value !== undefined && own !== undefined && value !== own;
        return (
          <td key={known[index]?.run.id} class={other ? "other" : undefined}>
            {other && <span aria-hidden="true">≠ </span>}
            {other && <span class="visually-hidden">differs: </span>}
            <Value text={value} skipped={skipped} />
          </td>
        );
      })}
    </>
  );
}

export function DifferenceRow({ row, ...shown }: Pick<Shown, "known" | "base"> & { row: Row }) {
  return (
    <tr data-key={row.key}>
      <th scope="row">
        {row.key.length > kMostLetters ? show.drawnName(row.key) : show.withoutEscapes(row.key)}
        {row.mayDiffer && <span class="small"> what reads alike may differ</span>}
      </th>
      <ValueCells row={row} {...shown} />
    </tr>
  );
}

// Of a table of differences: a column for each run.
export function RunColumns({ first, ...shown }: Shown & { first: string }) {
  return (
    <thead>
      <tr>
        <th scope="col">{first}</th>
        {shown.known.map((one) => (
          <th key={one.run.id} scope="col">
            <Heading of={one} {...shown} />
          </th>
        ))}
      </tr>
    </thead>
  );
}

export interface Part {
  title: string;
  note: string;
  rows: Row[];
}

// Keys by runs.
export function DifferenceTable({
  part,
  all,
  children,
  ...shown
}: Shown & { part: Part; all: boolean; children?: ComponentChildren }) {
  const count = part.rows.filter((row) => row.differs).length;
  const vague = part.rows.filter((row) => row.mayDiffer && !row.differs).length;
  const rows = all ? part.rows : part.rows.filter((row) => row.differs || row.mayDiffer);
  const id = `part-${part.title.toLowerCase()}`;
  return (
    <section class="compare-part" aria-labelledby={id}>
      <h2 id={id}>
        {part.title}{" "}
        {part.rows.length > 0 && (
          <span class="small">
            {count} of {part.rows.length} {count === 1 ? "differs" : "differ"}
            {vague > 0 && `, ${vague} may`}
          </span>
        )}
      </h2>
      <p class="small">{part.note}</p>
      {rows.length > 0 && (
        <div class="scroll" role="region" tabIndex={0} aria-label={`${part.title}, table`}>
          <table class="differences">
            <RunColumns first="Key" {...shown} />
            <tbody>
              {rows.map((row) => (
                <DifferenceRow key={row.key} row={row} {...shown} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {children}
    </section>
  );
}
