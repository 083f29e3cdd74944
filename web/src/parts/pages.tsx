import { setQuery } from "../base/route";

// Pages of a list behind this one are known by their cursors; those before it as far as one has come
// by them.
const cameFrom = new Map<string, string>(); // cursor of a page → that of the one before, "" the first

// The cursor stands in the address. `next` is null where there is no page behind this one, or where
// what is shown is not yet of this address. Buttons that do nothing now keep the focus.
export function Pages({
  of,
  cursor,
  query,
  next,
}: {
  of: string;
  cursor: string; // its name in the address
  query: URLSearchParams;
  next: string | null;
}) {
  const here = query.get(cursor) ?? "";
  if (here === "" && next == null) return null;
  const before = cameFrom.get(here);
  const button = (name: string, to: string | null | undefined, note?: string) => (
    <button
      type="button"
      aria-disabled={to == null}
      title={to == null ? note : undefined}
      onClick={() => {
        if (to == null) return;
        if (to === next) cameFrom.set(to, here);
        setQuery({ [cursor]: to });
      }}
    >
      {name}
    </button>
  );
  return (
    <nav class="pages" aria-label={`Pages of ${of}`}>
      {button("First", here === "" ? null : "")}
      {button("Previous", here === "" ? null : before, "Not known after a reload")}
      {button("Next", next)}
    </nav>
  );
}
