import { setQuery } from "../base/route";

// Pages of a list behind this one are known by their cursors; those before it as far as this tab has
// come by them.
interface Place {
  before: string; // cursor of the page before, "" the first
  rows: number | null; // of the list before this page, where that is known
}
const kKey = "regatta.pages";
const kMost = 200; // pages

function stored(): [string, Place][] {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(kKey) ?? "[]");
    return Array.isArray(found) ? (found as [string, Place][]) : [];
  } catch {
    return [];
  }
}
let places: Map<string, Place> | null = null;
function known(): Map<string, Place> {
  places ??= new Map(stored());
  return places;
}
function keep(cursor: string, place: Place) {
  const all = known();
  all.delete(cursor);
  all.set(cursor, place);
  const oldest = all.keys().next();
  if (all.size > kMost && !oldest.done) all.delete(oldest.value);
  try {
    sessionStorage.setItem(kKey, JSON.stringify([...all]));
  } catch {
    // then a reload knows less
  }
}

// Rows in front of the page at this cursor; null: nobody knows.
export function rowsBefore(cursor: string | null): number | null {
  return cursor ? (known().get(cursor)?.rows ?? null) : 0;
}

// The cursor stands in the address. `next` is null where there is no page behind this one, or where
// what is shown is not yet of this address. Buttons that do nothing now keep the focus.
export function Pages({
  of,
  cursor,
  query,
  next,
  rows = null,
}: {
  of: string;
  cursor: string; // its name in the address
  query: URLSearchParams;
  next: string | null;
  rows?: number | null; // of this page
}) {
  const here = query.get(cursor) ?? "";
  if (here === "" && next == null) return null;
  const before = known().get(here)?.before;
  const button = (name: string, to: string | null | undefined) => (
    <button
      type="button"
      aria-disabled={to == null}
      onClick={() => {
        if (to == null) return;
        const start = rowsBefore(here);
        const sum = start == null || rows == null ? null : start + rows;
        if (to === next) keep(to, { before: here, rows: sum });
        setQuery({ [cursor]: to });
      }}
    >
      {name}
    </button>
  );
  return (
    <nav class="pages" aria-label={`Pages of ${of}`}>
      {button("First", here === "" ? null : "")}
      {button("Previous", here === "" ? null : before)}
      {button("Next", next)}
      {here !== "" && before == null && (
        <span class="small">A link leads only onwards from here; begin at the first page.</span>
      )}
    </nav>
  );
}
