import type { Look } from "../base/colours";
import * as show from "../base/format";
import { runHash } from "../base/route";
import { StateBadge } from "../parts/icons";
import { Name } from "../parts/name";
import { Swatch } from "../parts/swatch";
import type { Known } from "./compare_api";
import type { Row } from "./differences";
import { against, kFigures, spread } from "./figures";

export interface Shown {
  known: Known[]; // in the order of the address
  looks: Map<string, Look>;
  base: Known | null;
}

function Heading({ known: { run }, looks }: { known: Known; looks: Map<string, Look> }) {
  const look = looks.get(run.id);
  return (
    <span class="run-name">
      {look && <Swatch look={look} />}
      <a href={runHash(run.id)} title={run.id}>
        <Name text={show.withoutEscapes(run.name)} />
      </a>
    </span>
  );
}

// What the runs came to, one a line, and how far from the baseline.
export function FigureTable({ known, looks, base, groups }: Shown & { groups: Known[][] }) {
  const name = base && show.withoutEscapes(base.run.name);
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
              {kFigures.map(({ key, title, help }) => (
                <th key={key} scope="col" class="num" title={help}>
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {known.map((one) => (
              <tr key={one.run.id} data-run={one.run.id}>
                <th scope="row">
                  <Heading known={one} looks={looks} />
                  {one === base && <span class="mark">baseline</span>}
                </th>
                <td data-name="State">
                  <StateBadge state={one.run.state} />
                </td>
                {kFigures.map((figure) => (
                  <td key={figure.key} class="num" data-name={figure.title} data-key={figure.key}>
                    {figure.text(figure.of(one), one.run)}
                    {base != null && one !== base && (
                      <span class="small">{against(figure, one, base) ?? show.kDash}</span>
                    )}
                  </td>
                ))}
              </tr>
            ))}
            {groups.map((group) => (
              <tr key={`mean ${group[0]?.run.id}`} class="mean" data-mean={group[0]?.run.id}>
                <th scope="row">
                  Mean ± deviation
                  <span class="small">
                    of the {group.length} seeds of{" "}
                    {show.withoutEscapes(group[0]?.run.name ?? "")}
                  </span>
                </th>
                <td data-name="State">{show.kDash}</td>
                {kFigures.map((figure) => {
                  const { mean, around } = spread(figure, group);
                  return (
                    <td key={figure.key} class="num" data-name={figure.title} data-key={figure.key}>
                      {mean}
                      <span class="small">{around}</span>
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

const kMostLetters = 160; // of a value that is shown at once

function Value({ text }: { text: string | null }) {
  if (text == null) return <span class="small">not set</span>;
  const plain = show.withoutEscapes(text);
  if (plain.length <= kMostLetters) return <>{plain === "" ? '""' : plain}</>;
  return (
    <details class="fold">
      <summary>{plain.slice(0, kMostLetters)}…</summary>
      {plain}
    </details>
  );
}

export interface Part {
  title: string;
  note: string;
  rows: Row[];
}

// Keys by runs. What is not as in the baseline, or else as in the first run, is marked.
export function DifferenceTable({ part, all, ...shown }: Shown & { part: Part; all: boolean }) {
  const { known, looks, base } = shown;
  const differing = part.rows.filter((row) => row.differs);
  const rows = all ? part.rows : differing;
  const from = base ? Math.max(0, known.indexOf(base)) : 0;
  const id = `part-${part.title.toLowerCase()}`;
  return (
    <section class="compare-part" aria-labelledby={id}>
      <h2 id={id}>
        {part.title}{" "}
        {part.rows.length > 0 && (
          <span class="small">
            {differing.length} of {part.rows.length} differ
          </span>
        )}
      </h2>
      <p class="small">{part.note}</p>
      {rows.length > 0 && (
        <div class="scroll" role="region" tabIndex={0} aria-label={`${part.title}, table`}>
          <table class="differences">
            <thead>
              <tr>
                <th scope="col">Key</th>
                {known.map((one) => (
                  <th key={one.run.id} scope="col">
                    <Heading known={one} looks={looks} />
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr key={row.key} data-key={row.key}>
                  <th scope="row">{show.withoutEscapes(row.key)}</th>
                  {row.values.map((value, index) => {
                    const other = value !== row.values[from];
                    return (
                      <td key={known[index]?.run.id} class={other ? "other" : undefined}>
                        {other && <span aria-hidden="true">≠ </span>}
                        {other && <span class="visually-hidden">differs: </span>}
                        <Value text={value} />
                      </td>
                    );
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
