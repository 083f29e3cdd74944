import { useId, useRef } from "preact/hooks";
import { withoutEscapes as clean } from "../base/format";
import { useShortcuts } from "../base/keys";
import type { Refusal } from "../base/request";
import { setQuery } from "../base/route";
import { Menu } from "../parts/menu";
import { TypedField } from "../parts/typed_field";
import { kNodeStates } from "./nodes_api";

// The filters of the nodes, as the API has them; they live in the address.
const kTexts = [
  { key: "partition", title: "Partition", help: "its whole name" },
  { key: "nodes", title: "Nodes", help: "node[01-04]" },
] as const;
const kUsable = [
  ["", "usable or not"],
  ["true", "only usable ones"],
  ["false", "only those that may get no work"],
] as const;
const kNodeFilters: readonly string[] = [
  "state",
  "usable",
  "text",
  ...kTexts.map(({ key }) => key),
];

// Other filters begin at the first page.
function filterNodes(
  changes: Record<string, string | null>,
  how: "visit" | "replace" = "visit",
) {
  setQuery({ ...changes, after: null }, how);
}

export function activeNodeFilters(query: URLSearchParams): [string, string][] {
  return kNodeFilters.flatMap((key): [string, string][] => {
    const value = query.get(key);
    return value ? [[key, value]] : [];
  });
}

function Field({ name, value, ...rest }: { name: string; value: string; [more: string]: unknown }) {
  return (
    <TypedField {...rest} value={value} onType={(text) => filterNodes({ [name]: text }, "replace")} />
  );
}

function StateMenu({ chosen }: { chosen: string[] }) {
  const toggle = (state: string) => {
    const next = chosen.includes(state)
      ? chosen.filter((one) => one !== state)
      : [...chosen, state];
    filterNodes({ state: next.join(",") });
  };
  return (
    <Menu label={chosen.length > 0 ? `State: ${chosen.length}` : "State"}>
      <fieldset>
        <legend>State</legend>
        {kNodeStates.map((state) => (
          <label key={state}>
            <input
              type="checkbox"
              checked={chosen.includes(state)}
              onChange={() => toggle(state)}
            />
            {state.replaceAll("_", " ")}
          </label>
        ))}
      </fieldset>
    </Menu>
  );
}

// What takes itself away when it is pressed hands the focus on to the search.
export const focusSearch = () =>
  document.querySelector<HTMLElement>(".filters .search")?.focus();

export function NodeFilters({
  query,
  refusal,
}: {
  query: URLSearchParams;
  refusal: Refusal | null; // of the list that these filters ask for
}) {
  const wrong = useId();
  const search = useRef<HTMLDivElement>(null);
  useShortcuts([
    { keys: "/", does: "Search nodes", act: () => search.current?.querySelector("input")?.focus() },
  ]);
  const chosen = (query.get("state") ?? "").split(",").filter((word) => word !== "");
  const rest = [...kTexts.map(({ key }) => key), "usable"].filter((key) => query.get(key)).length;
  return (
    <div class="filters" role="search" ref={search}>
      <Field
        name="text"
        value={query.get("text") ?? ""}
        class="search"
        placeholder="Search name or reason"
        aria-label="Search nodes by name or reason"
        aria-keyshortcuts="/"
        onKeyDown={(event: KeyboardEvent) => {
          if (event.key === "Escape") (event.target as HTMLElement).blur();
        }}
      />
      <StateMenu chosen={chosen} />
      <Menu label={rest > 0 ? `Filters: ${rest}` : "Filters"}>
        {kTexts.map(({ key, title, help }) => {
          const isWrong = refusal?.parameter === key;
          return (
            <div key={key}>
              <label class="wide">
                {title}
                <Field
                  name={key}
                  value={query.get(key) ?? ""}
                  placeholder={help}
                  {...(isWrong && { "aria-invalid": true, "aria-describedby": wrong })}
                />
              </label>
              {isWrong && (
                <p id={wrong} class="small wrong">
                  {clean(refusal.message)}
                </p>
              )}
            </div>
          );
        })}
        <label class="wide">
          Usable
          <select
            value={query.get("usable") ?? ""}
            onChange={(event) => filterNodes({ usable: event.currentTarget.value })}
          >
            {kUsable.map(([value, title]) => (
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

// What hides nodes now, each to be taken away.
export function NodeChips({ query }: { query: URLSearchParams }) {
  const active = activeNodeFilters(query);
  if (active.length === 0) return null;
  const remove = (keys: readonly string[]) => {
    filterNodes(Object.fromEntries(keys.map((key) => [key, null])));
    focusSearch();
  };
  return (
    <div class="chips">
      {active.map(([key, value]) => (
        <button
          key={key}
          type="button"
          class="chip"
          aria-label={`Remove the filter ${key} ${clean(value)}`}
          onClick={() => remove([key])}
        >
          <span class="cut">
            {key}: {clean(value)}
          </span>
          <span aria-hidden="true">×</span>
        </button>
      ))}
      <button type="button" class="quiet" onClick={() => remove(kNodeFilters)}>
        Remove all filters
      </button>
    </div>
  );
}
