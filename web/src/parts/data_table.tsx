import { useState } from "preact/hooks";
import * as show from "../base/format";
import type { Cell, Table } from "./chart_data";

const kRows = 100; // of a page

function text(cell: Cell): string {
  if (cell == null) return show.kDash;
  if (typeof cell === "string") return show.withoutEscapes(cell);
  return Number.isInteger(cell) ? show.count(cell) : String(Number(cell.toPrecision(6)));
}

// The figures of a drawing, for who cannot or will not read it off. The first column names the row.
export function DataTable({ caption, table }: { caption: string; table: Table }) {
  const [page, setPage] = useState(0);
  const pages = Math.max(1, Math.ceil(table.rows.length / kRows));
  const now = Math.min(page, pages - 1);
  const from = now * kRows;
  const rows = table.rows.slice(from, from + kRows);
  return (
    <div class="data-table">
      <div class="scroll" tabIndex={0} role="region" aria-label={`${caption}, table`}>
        <table>
          <caption class="visually-hidden">{caption}</caption>
          <thead>
            <tr>
              {table.columns.map((name, i) => (
                <th key={i} scope="col" class={i > 0 && isFigures(table, i) ? "num" : undefined}>
                  {show.withoutEscapes(name)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, i) => (
              <tr key={from + i}>
                {row.map((cell, k) =>
                  k === 0 ? (
                    <th key={k} scope="row">
                      {text(cell)}
                    </th>
                  ) : (
                    <td key={k} class={isFigures(table, k) ? "num" : undefined}>
                      {text(cell)}
                    </td>
                  ),
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="data-pages">
        <span class="small" role="status">
          {table.rows.length === 0
            ? "No rows."
            : `Rows ${show.count(from + 1)} to ${show.count(from + rows.length)} of ` +
              show.count(table.rows.length)}
        </span>
        {pages > 1 && (
          <>
            <button
              type="button"
              aria-disabled={now === 0}
              onClick={() => setPage(Math.max(0, now - 1))}
            >
              Previous rows
            </button>
            <button
              type="button"
              aria-disabled={now === pages - 1}
              onClick={() => setPage(Math.min(pages - 1, now + 1))}
            >
              Next rows
            </button>
          </>
        )}
      </div>
    </div>
  );
}

const isFigures = (table: Table, column: number) => typeof table.rows[0]?.[column] !== "string";
