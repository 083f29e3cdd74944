import { useRef } from "preact/hooks";
import type { State } from "../base/api";
import { kStates } from "../base/api";
import { useShortcuts } from "../base/keys";
import { setQuery } from "../base/route";
import { Menu } from "../parts/menu";
import { TypedField } from "../parts/typed_field";

// The filters of the list, as the API has them; they live in the address.
const kTexts = [
  { key: "name", title: "Name begins with" },
  { key: "owner", title: "Owner" },
  { key: "tag", title: "Tags", help: "with all of these: a,b" },
  { key: "node", title: "Ran on node" },
  { key: "since", title: "Created from", help: "2026-11-27, or with a time: 2026-11-27T10:30:00Z" },
  { key: "until", title: "Created before", help: "as above" },
] as const;
const kArchived = [
  ["", "without archived ones"],
  ["true", "only archived ones"],
  ["all", "archived ones, too"],
] as const;
const kPlace = ["before"]; // a page of the list as it was

export const kFilters: readonly string[] = ["state", "text", "archived", ...kTexts.map((one) => one.key)];

// Other filters begin at the first page.
function filter(changes: Record<string, string | null>, how: "visit" | "replace" = "visit") {
  setQuery({ ...changes, ...Object.fromEntries(kPlace.map((key) => [key, null])) }, how);
}

export function activeFilters(query: URLSearchParams): [string, string][] {
  return kFilters.flatMap((key): [string, string][] => {
    const value = query.get(key);
    return value ? [[key, value]] : [];
  });
}

function Field({ name, value, ...rest }: { name: string; value: string; [more: string]: unknown }) {
  return (
    <TypedField {...rest} value={value} onType={(text) => filter({ [name]: text }, "replace")} />
  );
}

function StateMenu({ chosen }: { chosen: string[] }) {
  const toggle = (state: State) => {
    const next = chosen.includes(state)
      ? chosen.filter((one) => one !== state)
      : [...chosen, state];
    filter({ state: next.join(",") });
  };
  return (
    <Menu label={chosen.length > 0 ? `State: ${chosen.length}` : "State"}>
      <fieldset>
        <legend>State</legend>
        {kStates.map((state) => (
          <label key={state}>
            <input
              type="checkbox"
              checked={chosen.includes(state)}
              onChange={() => toggle(state)}
            />
            {state}
          </label>
        ))}
      </fieldset>
    </Menu>
  );
}

export function Filters({ query }: { query: URLSearchParams }) {
  const search = useRef<HTMLDivElement>(null);
  useShortcuts([
    { keys: "/", does: "Search runs", act: () => search.current?.querySelector("input")?.focus() },
  ]);
  const leave = (event: KeyboardEvent) => {
    if (event.key === "Escape") (event.target as HTMLElement).blur();
  };
  const chosen = (query.get("state") ?? "").split(",").filter((word) => word !== "");
  const rest = kTexts.filter(({ key }) => query.get(key)).length + (query.get("archived") ? 1 : 0);
  return (
    <div class="filters" role="search" ref={search}>
      <Field
        name="text"
        value={query.get("text") ?? ""}
        class="search"
        placeholder="Search name, id or error"
        aria-label="Search runs by name, id or error"
        aria-keyshortcuts="/"
        onKeyDown={leave}
      />
      <StateMenu chosen={chosen} />
      <Menu label={rest > 0 ? `Filters: ${rest}` : "Filters"}>
        {kTexts.map(({ key, title, ...more }) => (
          <label key={key} class="wide">
            {title}
            <Field
              name={key}
              value={query.get(key) ?? ""}
              placeholder={"help" in more ? more.help : undefined}
            />
          </label>
        ))}
        <label class="wide">
          Archive
          <select
            value={query.get("archived") ?? ""}
            onChange={(event) => filter({ archived: event.currentTarget.value })}
          >
            {kArchived.map(([value, title]) => (
              <option key={value} value={value}>
                {title}
              </option>
            ))}
          </select>
        </label>
      </Menu>
    </div>
  );
}

// What hides runs now, each to be taken away.
export function FilterChips({ query }: { query: URLSearchParams }) {
  const active = activeFilters(query);
  if (active.length === 0) return null;
  return (
    <div class="chips">
      {active.map(([key, value]) => (
        <button
          key={key}
          type="button"
          class="chip"
          aria-label={`Remove the filter ${key} ${value}`}
          onClick={() => filter({ [key]: null })}
        >
          <span class="cut">
            {key}: {value}
          </span>
          <span aria-hidden="true">×</span>
        </button>
      ))}
      <button
        type="button"
        class="quiet"
        onClick={() => filter(Object.fromEntries(kFilters.map((key) => [key, null])))}
      >
        Remove all filters
      </button>
    </div>
  );
}
