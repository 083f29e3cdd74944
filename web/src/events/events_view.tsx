import { useEffect, useRef, useState } from "preact/hooks";
import { count, withoutEscapes } from "../base/format";
import { useShortcuts } from "../base/keys";
import { usePoll } from "../base/poll";
import { messageOf } from "../base/request";
import { setQuery } from "../base/route";
import { Connection, ErrorPanel } from "../parts/notices";
import { EventTable } from "./event_table";
import { EventChips, EventFilters } from "./event_filters";
import type { AnyEvent } from "./events_api";
import { askEvents, filtersOf, kMostNew, kPageSize } from "./events_api";
import { PauseButton } from "./pause_button";

const kEvery = 2000; // ms
const kAtTop = 120; // pixels: a reader who has come no further down sees the new ones come in

const clean = withoutEscapes;

interface Shown {
  of: string; // filters and page
  events: AnyEvent[]; // the newest first
  fresh: AnyEvent[]; // what came since and waits for the reader, the newest first
  next: number;
  older: boolean;
  tooMany: boolean; // of fresh ones: only that there are more is known
}

// Where the new ones would push away what is being read, they wait.
function takesNew(): boolean {
  return window.scrollY < kAtTop && !document.activeElement?.closest(".events tbody");
}

// The page of events at this address, and what has come since.
function useEvents(query: URLSearchParams, paused: boolean) {
  const before = query.get("before");
  const of = `${new URLSearchParams(filtersOf(query))} before ${before ?? "-"}`;
  const [shown, setShown] = useState<Shown | null>(null);
  const [again, setAgain] = useState(0);
  const kept = useRef<Shown | null>(null);
  const waits = useRef(paused);
  waits.current = paused;
  const keep = (next: Shown) => setShown((kept.current = next));

  const begin = async (signal: AbortSignal): Promise<Shown> => {
    const limit = { limit: kPageSize };
    const page = await askEvents(query, before ? { ...limit, before } : limit, signal);
    // Of an older page, new ones are those above all that there is now.
    const next = before ? (await askEvents(query, { limit: 1 }, signal)).next : page.next;
    const events = page.events.slice().reverse();
    return { of, events, fresh: [], next, older: page.more, tooMany: false };
  };
  const health = usePoll(`${of} ${again}`, kEvery, async (signal) => {
    const known = kept.current;
    if (known == null || known.of !== of) return keep(await begin(signal));
    if (known.tooMany) return;
    const news = await askEvents(query, { since: known.next, limit: kMostNew }, signal);
    if (news.events.length === 0) return;
    const fresh = [...news.events.slice().reverse(), ...known.fresh];
    const now = { ...known, fresh, next: news.next, tooMany: news.more || fresh.length > kMostNew };
    if (before || waits.current || !takesNew()) return keep(now);
    // What lies between would be missing: the list begins again, and until then stays as it is.
    keep(now.tooMany ? await begin(signal) : withFresh(now));
  });
  const showNew = () => {
    const known = kept.current;
    if (!known) return;
    if (before) return setQuery({ before: null });
    if (known.tooMany) {
      kept.current = null;
      setAgain(again + 1);
    } else {
      keep(withFresh(known));
    }
  };
  return { shown, health, showNew, current: shown?.of === of };
}

function withFresh(known: Shown): Shown {
  const all = [...known.fresh, ...known.events];
  const events = all.slice(0, kPageSize);
  return { ...known, events, fresh: [], older: known.older || all.length > kPageSize };
}

function Fresh({ shown, onShow }: { shown: Shown; onShow: () => void }) {
  const many = shown.fresh.length;
  const text = shown.tooMany ? `more than ${count(kMostNew)}` : count(many);
  return (
    <div class="fresh" role="status">
      {many > 0 && (
        <button type="button" onClick={onShow}>
          Show {text} new {many === 1 ? "event" : "events"}
        </button>
      )}
    </div>
  );
}

// Pages are told by the number that all their events are below; those above by what comes after.
function Pages({ query, shown }: { query: URLSearchParams; shown: Shown }) {
  const [failure, setFailure] = useState<string | null>(null);
  const here = query.get("before");
  const last = shown.events[shown.events.length - 1];
  const first = shown.events[0];
  if (here == null && !shown.older) return null;
  const turn = (before: string | null) => {
    setQuery({ before });
    window.scrollTo({ top: 0 });
  };
  const newer = async () => {
    setFailure(null);
    const place = location.hash;
    try {
      const since = first?.number ?? Number(here) - 1;
      const limit = kPageSize;
      const page = await askEvents(query, { since, limit }, new AbortController().signal);
      const top = page.events[page.events.length - 1];
      // The reader may be elsewhere by the time that the answer comes.
      if (location.hash === place) turn(page.more && top ? String(top.number + 1) : null);
    } catch (error) {
      setFailure(messageOf(error));
    }
  };
  return (
    <nav class="pages" aria-label="Pages of events">
      <button type="button" disabled={here == null} onClick={() => turn(null)}>
        Newest
      </button>
      <button type="button" disabled={here == null} onClick={() => void newer()}>
        Newer
      </button>
      <button
        type="button"
        disabled={!shown.older}
        onClick={() => last && turn(String(last.number))}
      >
        Older
      </button>
      {failure && (
        <span class="failure" role="alert">
          {failure}
        </span>
      )}
    </nav>
  );
}

export function EventsView({ query }: { query: URLSearchParams }) {
  const [paused, setPaused] = useState(false);
  const { shown, health, showNew, current } = useEvents(query, paused);
  const heading = useRef<HTMLHeadingElement>(null);
  const toHeading = () => heading.current?.focus(); // from a button that goes as it is pressed
  useEffect(() => {
    document.title = "Events · Regatta";
  }, []);
  useShortcuts([
    {
      keys: ".",
      does: "Show new events",
      act: () => {
        showNew();
        window.scrollTo({ top: 0 });
      },
    },
  ]);
  const filtered = filtersOf(query).length > 0;
  // A name that is being typed is no run's yet: that is no fault, and what was listed stays.
  const noRun = query.get("run") && health.refusal?.status === 404 ? health.refusal : null;
  return (
    <div class="events all-events">
      <Connection health={health} />
      <div class="heading">
        <h1 ref={heading} tabIndex={-1}>
          Events
        </h1>
        <span class="small">{query.get("before") ? "older ones" : "the newest first"}</span>
        {!query.get("before") && <PauseButton paused={paused} onChange={setPaused} />}
      </div>
      <EventFilters query={query} />
      <EventChips query={query} onRemove={toHeading} />
      {noRun && (
        <p class="small" role="status">
          {clean(noRun.message)}
        </p>
      )}
      {health.refusal && !noRun && (
        <ErrorPanel title="The controller refused" text={clean(health.refusal.message)} />
      )}
      {shown == null && !health.refusal && !health.failure && (
        <p class="loading">Loading events…</p>
      )}
      {shown && (
        <Fresh
          shown={shown}
          onShow={() => {
            showNew();
            toHeading();
          }}
        />
      )}
      {shown && (!health.refusal || noRun || current) && (
        <div class={current ? "" : "stale"}>
          {shown.events.length > 0 ? (
            <EventTable events={shown.events} />
          ) : (
            <p class="nothing">
              {filtered ? "No event passes all of these filters." : "Nothing has happened yet."}
            </p>
          )}
          <Pages query={query} shown={shown} />
        </div>
      )}
    </div>
  );
}
