import { withoutEscapes } from "../base/format";
import { setQuery } from "../base/route";
import { Menu } from "../parts/menu";
import { TypedField } from "../parts/typed_field";
import type { Filter } from "./events_api";
import { filtersOf } from "./events_api";
import { kGroups, kProblems } from "./kinds";

const kTexts = [
  { key: "run", title: "Run", help: "id or name" },
  { key: "node", title: "Node", help: "node03" },
  { key: "by", title: "Asked by", help: "uid 1000 or token" },
] as const;
const filter = (changes: Record<string, string | null>, how: "visit" | "replace" = "visit") =>
  setQuery({ ...changes, before: null }, how);

interface FieldProps {
  name: Filter;
  title: string;
  value: string;
  help: string;
}

function Field({ name, title, value, help }: FieldProps) {
  return (
    <label class="event-field">
      {title}
      <TypedField
        value={value}
        placeholder={help}
        onType={(text) => filter({ [name]: text }, "replace")}
      />
    </label>
  );
}

export function EventFilters({ query }: { query: URLSearchParams }) {
  const kinds = (query.get("kind") ?? "").split(",").filter((word) => word !== "");
  const toggle = (kind: string) => {
    // One group takes the place of the kinds within it.
    const next = kinds.includes(kind)
      ? kinds.filter((one) => one !== kind)
      : [...kinds.filter((one) => !one.startsWith(`${kind}.`)), kind];
    filter({ kind: next.join(",") });
  };
  const problems = query.get("kind") === kProblems;
  return (
    <div class="event-filters" role="search">
      <Menu label={kinds.length > 0 && !problems ? `Kinds: ${kinds.length}` : "Kinds"}>
        <fieldset>
          <legend>Events of</legend>
          {kGroups.map(([kind, title]) => (
            <label key={kind}>
              <input
                type="checkbox"
                checked={kinds.includes(kind)}
                onChange={() => toggle(kind)}
              />
              {title}
            </label>
          ))}
        </fieldset>
      </Menu>
      <button
        type="button"
        aria-pressed={problems}
        onClick={() => filter({ kind: problems ? null : kProblems })}
      >
        Only problems
      </button>
      {kTexts.map(({ key, title, help }) => (
        <Field key={key} name={key} title={title} help={help} value={query.get(key) ?? ""} />
      ))}
    </div>
  );
}

// `onRemove`: after a press, with which the button itself goes.
export function EventChips({ query, onRemove }: { query: URLSearchParams; onRemove: () => void }) {
  const active = filtersOf(query);
  if (active.length === 0) return null;
  return (
    <div class="chips">
      {active.map(([key, value]) => {
        const text = withoutEscapes(`${key}: ${value === kProblems ? "problems" : value}`);
        return (
          <button
            key={key}
            type="button"
            class="chip"
            aria-label={`Remove the filter ${text}`}
            onClick={() => {
              filter({ [key]: null });
              onRemove();
            }}
          >
            <span class="cut">{text}</span>
            <span aria-hidden="true">×</span>
          </button>
        );
      })}
      <button
        type="button"
        class="quiet"
        onClick={() => {
          filter({ kind: null, run: null, node: null, by: null });
          onRemove();
        }}
      >
        Remove all filters
      </button>
    </div>
  );
}
