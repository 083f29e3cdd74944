import { useRef } from "preact/hooks";
import type { State } from "../base/api";
import { kStates } from "../base/api";
import { withoutEscapes as clean } from "../base/format";
import { useShortcuts } from "../base/keys";
import { setQuery } from "../base/route";
import { Menu } from "../parts/menu";
import { TypedField } from "../parts/typed_field";

// A date, or a moment of one; what is typed is a filter once it is that.
const kMoment =
  "\\d{4}-\\d{2}-\\d{2}(T\\d{2}:\\d{2}(:\\d{2}(\\.\\d+)?)?(Z|[+\\-]\\d{2}:?\\d{2}))?";
const kMomentHelp = "2026-11-27";
const kMomentTitle = "A date, or a moment: 2026-11-27T10:30:00Z";

// The filters of the list, as the API has them; they live in the address.
const kTexts = [
  { key: "name", title: "Name begins with" },
  { key: "owner", title: "Owner", help: "the whole of it: uid 1000" },
  { key: "tag", title: "Tags", help: "with all of these: a,b" },
  { key: "node", title: "Ran on node" },
  { key: "since", title: "Created from", help: kMomentHelp, pattern: kMoment, about: kMomentTitle },
  { key: "until", title: "Created before", help: kMomentHelp, pattern: kMoment, about: kMomentTitle },
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

export const kMoments: ReadonlySet<string> = new Set(["since", "until"]);

// A date alone begins where the reader is, as the times of the list are told; the API's is of UTC.
export function momentOf(text: string): string {
  const midnight = /^\d{4}-\d\d-\d\d$/.test(text) ? new Date(`${text}T00:00`) : null;
  if (!midnight || Number.isNaN(midnight.getTime())) return text; // the API says what is wrong
  return midnight.toISOString();
}

function Field({
  name,
  value,
  pattern,
  ...rest
}: {
  name: string;
  value: string;
  pattern?: string | undefined;
  [more: string]: unknown;
}) {
  const take = (text: string) => {
    if (text !== "" && pattern != null && !new RegExp(`^${pattern}$`).test(text)) return;
    filter({ [name]: text }, "replace");
  };
  return <TypedField {...rest} pattern={pattern} value={value} onType={take} />;
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
              pattern={"pattern" in more ? more.pattern : undefined}
              title={"about" in more ? more.about : undefined}
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
  // The button that is pressed goes; what it had chosen is chosen among these.
  const remove = (keys: readonly string[]) => {
    document.querySelector<HTMLElement>(".filters summary")?.focus();
    filter(Object.fromEntries(keys.map((key) => [key, null])));
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
      <button type="button" class="quiet" onClick={() => remove(kFilters)}>
        Remove all filters
      </button>
    </div>
  );
}
