import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { RunPage, RunRow } from "../base/api";
import { api, hasEnded } from "../base/api";
import { now } from "../base/clock";
import * as show from "../base/format";
import { useShortcuts } from "../base/keys";
import { usePoll } from "../base/poll";
import { usePreference } from "../base/preferences";
import type { Refusal } from "../base/request";
import { go, setQuery } from "../base/route";
import { focusMain } from "../parts/focus";
import { Menu } from "../parts/menu";
import { Connection } from "../parts/notices";
import { Pages, rowsBefore } from "../parts/pages";
import { stepRows } from "../parts/rows";
import type { Column } from "./columns";
import { choiceWith, isFixed, kColumns, shownColumns } from "./columns";
import { FilterChips, Filters, activeFilters, kFilters, kMoments, momentOf } from "./filters";
import { SelectionBar, compare } from "./selection";
import type { Curve } from "./sparks";
import { useCurves } from "./sparks";

const kNone: RunRow[] = [];
const kPageSize = 100;
const kEvery = 1000; // ms
const kAsked = [...kFilters, "sort", "order", "before"]; // of the address, as the API takes it

// What is asked of the API for the list at this address.
export function listQuery(query: URLSearchParams): string {
  const asked = new URLSearchParams();
  for (const key of kAsked) {
    const value = query.get(key);
    if (value) asked.set(key, kMoments.has(key) ? momentOf(value) : value);
  }
  asked.set("limit", String(kPageSize));
  asked.set("total", "true");
  return asked.toString();
}

const kCommands = `regatta-train prepare my-text/ --train-vocab 4000 --output dataset
regatta submit run.yaml`;

function Empty() {
  return (
    <section class="empty">
      <h2>No runs</h2>
      <p>
        There are none, or all of them are archived: <a href="#/?archived=all">archived ones, too</a>.
      </p>
      <p>Turn text into a dataset, then submit a run; it shows up here within a second.</p>
      <pre>
        <code>{kCommands}</code>
      </pre>
    </section>
  );
}

function ColumnMenu() {
  const [choice, setChoice] = usePreference("columns");
  const shown = new Set(shownColumns(choice).map((column) => column.name));
  return (
    <Menu label="Columns">
      <fieldset>
        <legend>Columns</legend>
        {kColumns.map((column) => (
          <div key={column.name}>
            <label>
              <input
                type="checkbox"
                checked={shown.has(column.name)}
                disabled={isFixed(column)}
                aria-describedby={column.help && `about-${column.name}`}
                onChange={(event) =>
                  setChoice(choiceWith(choice, column, event.currentTarget.checked))
                }
              />
              {column.title}
              {shown.has(column.name) && (
                <span class={`no-room of-${column.name}`}>no room here</span>
              )}
            </label>
            {column.help && (
              <p class="small about" id={`about-${column.name}`}>
                {column.help}
              </p>
            )}
          </div>
        ))}
      </fieldset>
    </Menu>
  );
}

type Order = "ascending" | "descending";
const kNewestFirst = new Set(["created", "ended"]);

function Head({ column, sort, order }: { column: Column; sort: string; order: Order }) {
  const sorted = column.sort != null && column.sort === sort;
  const natural: Order = kNewestFirst.has(column.sort ?? "") ? "descending" : "ascending";
  const other: Order = order === "ascending" ? "descending" : "ascending";
  return (
    <th
      scope="col"
      class={`cell-${column.name} ${column.figures ? "num" : ""}`}
      aria-sort={sorted ? order : undefined}
      title={column.help}
    >
      {column.sort == null ? (
        column.title
      ) : (
        <button
          type="button"
          class="sort"
          onClick={() =>
            setQuery({ sort: column.sort ?? null, order: sorted ? other : natural, before: null })
          }
        >
          {column.title}
          <span aria-hidden="true">{sorted ? (order === "ascending" ? " ↑" : " ↓") : ""}</span>
        </button>
      )}
    </th>
  );
}

// Drawn again where something of it is another: a hundred rows are too many for each key.
function Row({
  run,
  columns,
  curve,
  selected,
  onSelect,
}: {
  run: RunRow;
  columns: Column[];
  curve: Curve | undefined;
  selected: boolean;
  onSelect: (run: RunRow, range: boolean) => void;
}) {
  const row = () => (
    <tr class={selected ? "selected" : undefined} data-run={run.id}>
      <td class="cell-select">
        <input
          type="checkbox"
          checked={selected}
          aria-label={`Select ${show.drawnName(run.name)}`}
          onClick={(event) => onSelect(run, event.shiftKey)}
        />
      </td>
      {columns.map((column) => (
        <td key={column.name} class={`cell-${column.name} ${column.figures ? "num" : ""}`}>
          {column.cell(run, curve)}
        </td>
      ))}
    </tr>
  );
  return useMemo(row, [run, columns, curve, selected, onSelect]);
}

interface Selection {
  runs: Map<string, RunRow>;
  last: string | null; // what was selected last, where a range begins
}

let compared: Selection | null = null; // of whoever comes back from the comparison

// The runs that are selected, as the newest answer has them; they may be on other pages.
function useSelection(rows: RunRow[]) {
  const [selection, setSelection] = useState<Selection>(compared ?? { runs: new Map(), last: null });
  useEffect(() => void (compared = null), []);
  const latest = useRef(rows);
  latest.current = rows;
  const select = useCallback((run: RunRow, range: boolean) => {
    setSelection((old) => {
      const runs = new Map(old.runs);
      const on = !runs.has(run.id);
      const all = latest.current;
      const from = all.findIndex((row) => row.id === old.last);
      const to = all.findIndex((row) => row.id === run.id);
      const some =
        range && from >= 0 ? all.slice(Math.min(from, to), Math.max(from, to) + 1) : [run];
      for (const one of some) {
        if (on) runs.set(one.id, one);
        else runs.delete(one.id);
      }
      return { runs, last: run.id };
    });
  }, []);
  const selectAll = (on: boolean) =>
    setSelection((old) => {
      const runs = new Map(old.runs);
      for (const row of rows) {
        if (on) runs.set(row.id, row);
        else runs.delete(row.id);
      }
      return { runs, last: null };
    });
  const drop = (ids: string[]) =>
    setSelection((old) => {
      const runs = new Map(old.runs);
      for (const id of ids) runs.delete(id);
      return { runs, last: null };
    });
  const keep = () => void (compared = selection);
  const newest = new Map(rows.map((row) => [row.id, row]));
  const runs = [...selection.runs.values()].map((run) => newest.get(run.id) ?? run);
  return { runs, has: (id: string) => selection.runs.has(id), select, selectAll, drop, keep };
}

function Table({
  rows,
  query,
  selection,
}: {
  rows: RunRow[];
  query: URLSearchParams;
  selection: ReturnType<typeof useSelection>;
}) {
  const [choice] = usePreference("columns");
  const columns = useMemo(() => shownColumns(choice), [choice]);
  const curves = useCurves(
    rows,
    columns.some((column) => column.name === "curve"),
  );
  const place = useRef<HTMLTableElement>(null);
  const sort = query.get("sort") ?? "created";
  const order = query.get("order") === "ascending" ? "ascending" : "descending";
  useShortcuts([
    { keys: "j", does: "Next run", act: () => stepRows(place.current, 1) },
    { keys: "k", does: "Previous run", act: () => stepRows(place.current, -1) },
    {
      keys: "x",
      does: "Select the run",
      act: () => {
        const id = document.activeElement?.closest("tr")?.dataset.run;
        const run = rows.find((row) => row.id === id);
        if (run) selection.select(run, false);
      },
    },
  ]);
  const all = rows.length > 0 && rows.every((row) => selection.has(row.id));
  return (
    <div class="scroll list">
      <table class="runs" ref={place}>
        <thead>
          <tr>
            <th scope="col" class="cell-select">
              <input
                type="checkbox"
                checked={all}
                aria-label="Select all runs of this page"
                onChange={() => selection.selectAll(!all)}
              />
            </th>
            {columns.map((column) => (
              <Head key={column.name} column={column} sort={sort} order={order} />
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((run) => (
            <Row
              key={run.id}
              run={run}
              columns={columns}
              curve={curves.get(run.id)}
              selected={selection.has(run.id)}
              onSelect={selection.select}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Nothing({ query }: { query: URLSearchParams }) {
  if (activeFilters(query).length === 0 && !query.get("before")) return <Empty />;
  const showAll = () => {
    go("#/");
    focusMain();
  };
  return (
    <section class="empty">
      <h2>{query.get("before") ? "This page is empty" : "No run is like that"}</h2>
      <p>
        {activeFilters(query).length > 0
          ? "No run passes all of these filters."
          : "There are no runs behind those of the page before."}
      </p>
      <button type="button" onClick={showAll}>
        Show all runs
      </button>
    </section>
  );
}

// What the address asks for is none of the reader's fault where a link has brought it.
function Refused({ refusal }: { refusal: Refusal }) {
  const { parameter } = refusal;
  const leaveOut = () => {
    setQuery({ ...(parameter != null && { [parameter]: null }), before: null });
    focusMain();
  };
  return (
    <section class="notice error" role="alert">
      <strong>The controller refused the list of runs</strong>
      <pre>{show.withoutEscapes(refusal.message)}</pre>
      <p>
        {parameter != null && (
          <button type="button" onClick={leaveOut}>
            {parameter === "before" ? "First page" : `Without ${show.drawnName(parameter)}`}
          </button>
        )}{" "}
        <a href="#/">Show all runs</a>
      </p>
    </section>
  );
}

const activeOf = (page: RunPage) => page.runs.filter((run) => !hasEnded(run)).length;
const isWhole = (page: RunPage) => page.runs.length >= (page.total ?? 0);

// Which of all these are, behind so many others; the last ones of a list need not be counted from its
// beginning.
function shownText({ runs, total, next }: RunPage, before: number | null): string {
  const start = before ?? (next == null ? Math.max(0, (total ?? 0) - runs.length) : null);
  if (start == null || start === 0 || runs.length === 0) {
    return `${show.count(runs.length)} of ${show.count(total)} shown`;
  }
  return `${show.count(start + 1)}–${show.count(start + runs.length)} of ${show.count(total)} shown`;
}

// How many there are, and how many of them are active: of those that are shown, where that is not all.
export function countText(page: RunPage, before: number | null = 0): string {
  const active = activeOf(page);
  if (!isWhole(page)) {
    const text = shownText(page, before);
    return active > 0 ? `${text}, ${show.count(active)} of these active` : text;
  }
  const text = show.count(page.runs.length);
  return active > 0 ? `${text}, ${show.count(active)} active` : text;
}

interface Answer {
  asked: string;
  answer: RunPage; // as it came
  page: RunPage;
  at: number;
}
let newest: Answer | null = null; // where one comes back to the list

// Rows that are as they were are the objects that they were, so that they need not be drawn again.
export function withOldRows(page: RunPage, old: RunPage | undefined): RunPage {
  const before = new Map(old?.runs.map((run) => [run.id, run]));
  const runs = page.runs.map((run) => {
    const known = before.get(run.id);
    return known && JSON.stringify(known) === JSON.stringify(run) ? known : run;
  });
  return { ...page, runs };
}

function useRuns(asked: string) {
  const [answer, setAnswer] = useState<Answer | null>(newest?.asked === asked ? newest : null);
  const [again, setAgain] = useState(0);
  const health = usePoll(`${asked} ${again}`, kEvery, async (signal) => {
    const page = await api.runs(asked, signal);
    const [old, at] = [newest, now()];
    if (old?.asked === asked && old.answer === page) old.at = at;
    else newest = { asked, answer: page, page: withOldRows(page, old?.page), at };
    setAnswer(newest);
  });
  const lastData = health.lastData ?? (answer && newest ? newest.at : null);
  return { answer, health: { ...health, lastData }, askAgain: () => setAgain(again + 1) };
}

export function RunList({ query }: { query: URLSearchParams }) {
  const asked = listQuery(query);
  const { answer, health, askAgain } = useRuns(asked);
  const page = answer?.page; // of another address until the answer comes
  const isCurrent = answer?.asked === asked;
  const active = page && isWhole(page) ? activeOf(page) : 0;
  useEffect(() => {
    document.title = active > 0 ? `(${active}) Runs · Regatta` : "Runs · Regatta";
  }, [active]);
  const selection = useSelection(page?.runs ?? kNone);
  const [note, setNote] = useState<string | null>(null); // why nothing is compared
  const compareThem = () => {
    const why = compare(selection.runs);
    if (why == null) selection.keep();
    setNote(why);
  };
  const drop = (ids: string[]) => {
    const isLast = ids.length === selection.runs.length;
    if (isLast && document.activeElement?.closest(".selection")) focusMain(); // the bar goes
    selection.drop(ids);
  };
  const clear = () => drop(selection.runs.map((run) => run.id));
  useEffect(() => setNote(null), [selection.runs.length]);
  useShortcuts([
    { keys: "c", does: "Compare the selected runs", act: compareThem },
    { keys: "Escape", does: "Select nothing", act: clear },
  ]);
  return (
    <>
      <Connection health={health} />
      {health.refusal && (
        <Refused refusal={health.refusal} />
      )}
      <div class="heading">
        <h1>Runs</h1>
        <span class="small" role="status">
          {page && isCurrent && countText(page, rowsBefore(query.get("before")))}
          {page && !isCurrent && !health.refusal && "Asking…"}
        </span>
        <span class="small" role="status">
          {note}
        </span>
      </div>
      {(page != null || health.refusal != null || activeFilters(query).length > 0) && (
        <div class="tools">
          <Filters query={query} />
          <ColumnMenu />
        </div>
      )}
      <FilterChips query={query} />
      <SelectionBar
        runs={selection.runs}
        onCompare={compareThem}
        onClear={clear}
        onChange={(gone) => {
          drop(gone);
          askAgain();
        }}
      />
      {page == null ? (
        !health.failure && !health.refusal && <p class="loading">Loading runs…</p>
      ) : page.runs.length === 0 ? (
        <Nothing query={query} />
      ) : (
        <div class={isCurrent ? "" : "stale"} aria-busy={!isCurrent && !health.refusal}>
          <Table rows={page.runs} query={query} selection={selection} />
        </div>
      )}
      {page != null && (
        <Pages
          of="the list"
          cursor="before"
          query={query}
          next={isCurrent ? page.next : null}
          rows={page.runs.length}
        />
      )}
    </>
  );
}
