import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import * as show from "../base/format";
import { useShortcuts } from "../base/keys";
import { usePoll } from "../base/poll";
import type { Refusal } from "../base/request";
import { go } from "../base/route";
import { focusMain } from "./focus";
import { Connection } from "./notices";
import { Pages } from "./pages";
import { stepRows } from "./rows";

const kPageSize = 50;
const kEvery = 2000; // ms

interface Page {
  total: number;
  next: string | null;
  left_out?: string[]; // what could not be read: why, and what to do
}

// What a list's words are made of: "Sweeps", "sweep".
export interface ListWords {
  view: string; // of the address
  title: string;
  one: string;
}

function askedOf(query: URLSearchParams, filters: string[]): string {
  const asked = new URLSearchParams({ limit: String(kPageSize) });
  for (const key of [...filters, "after"]) {
    const value = query.get(key);
    if (value) asked.set(key, value);
  }
  return asked.toString();
}

function Refused({ words, refusal }: { words: ListWords; refusal: Refusal }) {
  const many = words.title.toLowerCase();
  return (
    <section class="notice error" role="alert">
      <strong>The controller refused the list of {many}</strong>
      <pre>{show.withoutEscapes(refusal.message)}</pre>
      <p>
        <a href={`#/${words.view}`}>Show all {many}</a>
      </p>
    </section>
  );
}

function NoneLikeThat({ words, query }: { words: ListWords; query: URLSearchParams }) {
  const showAll = () => {
    go(`#/${words.view}`);
    focusMain();
  };
  return (
    <section class="empty">
      <h2>{query.get("after") ? "This page is empty" : `No ${words.one} is like that`}</h2>
      <button type="button" onClick={showAll}>
        Show all {words.title.toLowerCase()}
      </button>
    </section>
  );
}

// A list whose pages are the server's, asked again while somebody looks; j and k go through it.
export function PagedList<P extends Page>({
  words,
  query,
  filters = [],
  ask,
  rowsOf,
  tools,
  table,
  nothing,
}: {
  words: ListWords;
  query: URLSearchParams;
  filters?: string[]; // parameters of the address that choose rows
  ask: (query: string, signal: AbortSignal) => Promise<P>;
  rowsOf: (page: P) => unknown[];
  tools?: ComponentChildren;
  table: (page: P, place: RefObject<HTMLTableElement | null>) => ComponentChildren;
  nothing: ComponentChildren; // where there is none at all
}) {
  const { title, one } = words;
  const asked = askedOf(query, filters);
  const [answer, setAnswer] = useState<{ asked: string; page: P } | null>(null);
  const health = usePoll(asked, kEvery, async (signal) => {
    const page = await ask(asked, signal);
    setAnswer((old) => (old?.page === page && old.asked === asked ? old : { asked, page }));
  });
  useEffect(() => {
    document.title = `${title} · Regatta`;
  }, []);
  const place = useRef<HTMLTableElement>(null);
  useShortcuts([
    { keys: "j", does: `Next ${one}`, act: () => stepRows(place.current, 1) },
    { keys: "k", does: `${one[0]?.toUpperCase()}${one.slice(1)} before`, act: () => stepRows(place.current, -1) },
  ]);
  const page = answer?.page; // of another address until the answer comes
  const rows = page ? rowsOf(page).length : 0;
  const isCurrent = answer?.asked === asked;
  const isFiltered = filters.some((key) => query.get(key));
  return (
    <div class="wide-view">
      <Connection health={health} />
      {health.refusal && <Refused words={words} refusal={health.refusal} />}
      <div class="heading">
        <h1>{title}</h1>
        <span class="small" role="status">
          {page && isCurrent && `${show.count(rows)} of ${show.count(page.total)} shown`}
        </span>
      </div>
      {page?.left_out?.map((why) => (
        <section key={why} class="notice error">
          <pre>{show.withoutEscapes(why)}</pre>
        </section>
      ))}
      {tools && (isFiltered || (page != null && page.total > 0)) && <div class="tools">{tools}</div>}
      {!page && !health.failure && !health.refusal && (
        <p class="loading">Loading {title.toLowerCase()}…</p>
      )}
      {page &&
        rows === 0 &&
        isCurrent &&
        (isFiltered || query.get("after") ? <NoneLikeThat words={words} query={query} /> : nothing)}
      {page && rows > 0 && (
        <div class={isCurrent ? "" : "stale"} aria-busy={!isCurrent && !health.refusal}>
          <div class="scroll" tabIndex={0} role="region" aria-label={`${title}, table`}>
            {table(page, place)}
          </div>
        </div>
      )}
      {page && (
        <Pages
          of={`the ${title.toLowerCase()}`}
          cursor="after"
          query={query}
          next={isCurrent ? page.next : null}
          rows={rows}
        />
      )}
    </div>
  );
}
