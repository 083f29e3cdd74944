import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import * as show from "../base/format";
import { useShortcuts } from "../base/keys";
import { runHash, setQuery } from "../base/route";
import { DownloadButton } from "../parts/download";
import { focusMain } from "../parts/focus";
import { Name } from "../parts/name";
import { stepRows } from "../parts/rows";
import { compare, kCompareNote, kMostCompared } from "../runs/selection";
import { TrialBadge } from "./badges";
import { KeyText } from "./key_text";
import { objectiveText, objectiveTitle, valueText } from "./objective";
import type { Sweep, Trial } from "./sweeps_api";
import { trialsPath } from "./sweeps_api";
import { isSortKey, kValuePrefix, reasonOf, sorted } from "./trials";

const kRows = 100; // that are shown at first, and more each time

interface Column {
  sort: string | null; // its name in the address; null: it sorts nothing
  title: string;
  isFigures?: boolean;
}

function columnsOf({ parameters, objective, budget }: Sweep): Column[] {
  return [
    { sort: "trial", title: "Trial" },
    { sort: "rank", title: "Rank", isFigures: true },
    { sort: "state", title: "State" },
    ...parameters.map(({ key, kind }) => ({
      sort: `${kValuePrefix}${key}`,
      title: show.drawnName(key),
      isFigures: kind !== "choice",
    })),
    { sort: "objective", title: objectiveTitle(objective), isFigures: true },
    { sort: "budget", title: `Budget, ${budget.unit}`, isFigures: true },
    { sort: null, title: "Run" },
    { sort: null, title: "Why" },
  ];
}

function Head({ column, sort, isDescending }: {
  column: Column;
  sort: string;
  isDescending: boolean;
}) {
  const isSorted = column.sort === sort;
  const order = isDescending ? "descending" : "ascending";
  const next = isSorted && !isDescending ? "descending" : null;
  const place = column.sort === "rank" ? null : column.sort;
  return (
    <th
      scope="col"
      class={column.isFigures ? "num" : undefined}
      aria-sort={isSorted ? order : undefined}
    >
      {column.sort == null ? (
        column.title
      ) : (
        <button type="button" class="sort" onClick={() => setQuery({ sort: place, order: next })}>
          <KeyText text={column.title} />
          <span aria-hidden="true">{isSorted ? (isDescending ? " ↓" : " ↑") : ""}</span>
        </button>
      )}
    </th>
  );
}

interface RowProps {
  sweep: Sweep;
  trial: Trial;
  isSelected: boolean;
  isPicked: boolean;
  onSelect: (trial: Trial) => void;
  onPoint: (trial: number | null) => void;
}

function budgetText({ budget, goal }: Trial): string {
  const done = show.count(budget ?? 0);
  return budget === goal ? done : `${done} of ${show.count(goal)}`;
}

function Row({ sweep, trial, isSelected, isPicked, onSelect, onPoint }: RowProps) {
  const why = reasonOf(trial);
  const classes = [...(isSelected ? ["selected"] : []), ...(isPicked ? ["picked"] : [])].join(" ");
  return (
    <tr
      class={classes || undefined}
      data-trial={trial.number}
      onMouseEnter={() => onPoint(trial.number)}
      onFocusIn={() => onPoint(trial.number)}
    >
      <th scope="row">
        <input
          type="checkbox"
          checked={isSelected}
          disabled={trial.run == null}
          aria-label={`Select trial ${trial.number}`}
          onChange={() => onSelect(trial)}
        />
        <span class="of-card">Trial </span>
        {trial.number}
      </th>
      <td class={trial.rank == null ? "num none" : "num"} data-name="Rank">
        {trial.rank ?? show.kDash}
      </td>
      <td data-name="State">
        <TrialBadge state={trial.state} />
      </td>
      {sweep.parameters.map(({ key, kind }) => (
        <td
          key={key}
          class={trial.values[key] === undefined ? "num none" : kind === "choice" ? "" : "num"}
          data-name={show.drawnName(key)}
        >
          {kind === "choice" && trial.values[key] !== undefined ? (
            <Name text={String(trial.values[key])} />
          ) : (
            valueText(trial.values[key])
          )}
        </td>
      ))}
      <td class="num" data-name={objectiveTitle(sweep.objective)}>
        {objectiveText(sweep.objective, trial.objective)}
      </td>
      <td class="num" data-name={`Budget, ${sweep.budget.unit}`}>
        {budgetText(trial)}
      </td>
      <td data-name="Run">
        {trial.run == null ? (
          show.kDash
        ) : (
          <a
            class="row-link"
            href={runHash(trial.run)}
            aria-label={`Run ${show.drawnName(trial.run)}`}
          >
            <Name text={trial.run} />
          </a>
        )}
      </td>
      <td class={why == null ? "reason none" : "reason"} data-name="Why">
        {why != null && (
          <span class={trial.state === "failed" ? "why failure" : "why"} title={why}>
            {why}
          </span>
        )}
      </td>
    </tr>
  );
}

// Trials that are selected by number, as the newest answer has them.
function useSelection(trials: Trial[]) {
  const [chosen, setChosen] = useState<ReadonlySet<number>>(new Set());
  const toggle = ({ number }: Trial) =>
    setChosen((old) => {
      const next = new Set(old);
      if (!next.delete(number)) next.add(number);
      return next;
    });
  const selected = trials.filter(({ number, run }) => run != null && chosen.has(number));
  const clear = () => {
    if (document.activeElement?.closest(".selection")) focusMain(); // the bar goes
    setChosen(new Set());
  };
  return { selected, has: (trial: Trial) => chosen.has(trial.number), toggle, clear };
}

function SelectionBar({ selected, onCompare, onClear }: {
  selected: Trial[];
  onCompare: () => void;
  onClear: () => void;
}) {
  if (selected.length === 0) return null;
  const fits = selected.length > 1 && selected.length <= kMostCompared;
  return (
    <div class="selection" role="region" aria-label="Selected trials">
      <strong role="status">{selected.length} selected</strong>
      <button
        type="button"
        aria-disabled={!fits}
        title={fits ? "Compare (c)" : kCompareNote}
        aria-keyshortcuts="c"
        onClick={onCompare}
      >
        Compare their runs
      </button>
      <button type="button" class="quiet" onClick={onClear}>
        Clear
      </button>
    </div>
  );
}

function Table({ sweep, rows, sort, isDescending, selection, picked, onPoint }: {
  sweep: Sweep;
  rows: Trial[];
  sort: string;
  isDescending: boolean;
  selection: ReturnType<typeof useSelection>;
  picked: number | null;
  onPoint: (trial: number | null) => void;
}) {
  const place = useRef<HTMLTableElement>(null);
  useShortcuts([
    { keys: "j", does: "Next trial", act: () => stepRows(place.current, 1) },
    { keys: "k", does: "Trial before", act: () => stepRows(place.current, -1) },
    {
      keys: "x",
      does: "Select the trial",
      act: () => {
        const number = Number(document.activeElement?.closest("tr")?.dataset.trial);
        const trial = rows.find((one) => one.number === number);
        if (trial?.run != null) selection.toggle(trial);
      },
    },
  ]);
  return (
    <table
      class="trials dense cards"
      ref={place}
      onMouseLeave={() => onPoint(null)}
      onFocusOut={() => onPoint(null)}
    >
      <thead>
        <tr>
          {columnsOf(sweep).map((column) => (
            <Head key={column.sort ?? column.title} {...{ column, sort, isDescending }} />
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((trial) => (
          <Row
            key={trial.number}
            {...{ sweep, trial, onPoint }}
            isSelected={selection.has(trial)}
            isPicked={trial.number === picked}
            onSelect={selection.toggle}
          />
        ))}
      </tbody>
    </table>
  );
}

export function TrialList({ sweep, trials, query, picked, onPoint }: {
  sweep: Sweep;
  trials: Trial[]; // those that pass
  query: URLSearchParams;
  picked: number | null;
  onPoint: (trial: number | null) => void;
}) {
  const asked = query.get("sort");
  const sort = asked != null && isSortKey(asked) ? asked : "rank";
  const isDescending = query.get("order") === "descending";
  const rows = useMemo(() => sorted(trials, sort, isDescending), [trials, sort, isDescending]);
  const [most, setMost] = useState(kRows);
  const selection = useSelection(sweep.trials);
  const { selected } = selection;
  const [note, setNote] = useState<string | null>(null); // why nothing is compared
  useEffect(() => setNote(null), [selected.length]);
  const compareThem = () => setNote(compare(selected.map(({ run }) => ({ id: run ?? "" }))));
  useShortcuts([{ keys: "c", does: "Compare the selected trials", act: compareThem }]);
  return (
    <section class="view-part" aria-label="Trials as a table">
      <div class="buckets-head">
        <h2>Trials as a table</h2>
        <span class="small" role="status">
          {note}
        </span>
        <DownloadButton
          path={trialsPath(sweep.id)}
          name={`${sweep.id}-trials.csv`}
          bytes={0}
          text="Download CSV"
          label="of all trials"
        />
      </div>
      <SelectionBar selected={selected} onCompare={compareThem} onClear={selection.clear} />
      <div class="scroll" tabIndex={0} role="region" aria-label="Trials, table">
        <Table
          {...{ sweep, sort, isDescending, selection, picked, onPoint }}
          rows={rows.slice(0, most)}
        />
        {rows.length === 0 && (
          <p class="small">
            {sweep.trials.length === 0 ? "No trial has begun yet." : "No trial passes the filters."}
          </p>
        )}
      </div>
      {rows.length > most && (
        <p class="small">
          {show.count(most)} of {show.count(rows.length)} shown.{" "}
          <button type="button" class="quiet" onClick={() => setMost(most + kRows)}>
            Show {Math.min(kRows, rows.length - most)} more
          </button>
        </p>
      )}
    </section>
  );
}
