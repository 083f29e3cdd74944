import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Run } from "../base/api";
import { api, hasEnded } from "../base/api";
import type { Newest } from "./events";
import { newest, withNewer, withOlder } from "./events";
import { EventTable } from "./event_table";
import { ErrorPanel } from "../parts/notices";
import { usePoll } from "../base/poll";
import { PauseButton } from "./pause_button";

const kFirst = 8; // events, until older ones are asked for
const kOlder = 50;
const kMostAtOnce = 1000; // the API's limit

export function EventList({ run }: { run: Run }) {
  const [list, setList] = useState<Newest | null>(null);
  const [room, setRoom] = useState(kFirst);
  const kept = useRef(list);

  const heading = useRef<HTMLHeadingElement>(null);
  const [paused, setPaused] = useState(false);
  const over = hasEnded(run);
  const busy = list != null && list.more && list.events.length < room;
  const key = paused && !busy ? null : `${run.id} ${room}`;
  const health = usePoll(key, over ? 5000 : 1000, async (signal) => {
    const ask = (which: string) => api.events(run.id, which, signal);
    const known = kept.current;
    const news = known && (await ask(`since=${known.next}`));
    // A page that was hidden for long may have missed more than one answer has: it begins again.
    let now =
      known && news && !news.more
        ? withNewer(known, news, room)
        : newest(await ask(`limit=${Math.min(room, kMostAtOnce)}`));
    const missing = room - now.events.length;
    const oldest = now.events[now.events.length - 1];
    if (now.more && missing > 0 && oldest) {
      const limit = Math.min(missing, kMostAtOnce);
      now = withOlder(now, await ask(`before=${oldest.number}&limit=${limit}`));
    }
    kept.current = now;
    setList(now);
  });

  // With the oldest ones the button goes that had the focus.
  useEffect(() => {
    if (list?.more === false && room > kFirst) heading.current?.focus();
  }, [list?.more]);
  const events = list?.events;
  // The run beside it changes each second, its events seldom.
  const table = useMemo(
    () => (events != null && events.length > 0 ? <EventTable events={events} ofRun /> : null),
    [events],
  );
  return (
    <section class="events" aria-label="What happened">
      <div class="heading">
        <h2 ref={heading} tabIndex={-1}>
          What happened
        </h2>
        {!over && <PauseButton paused={paused} onChange={setPaused} />}
      </div>
      {health.refusal && (
        <ErrorPanel title="The events cannot be shown" text={health.refusal.message} />
      )}
      {list == null && !health.refusal && <p class="loading">Loading events…</p>}
      {list?.events.length === 0 && <p class="nothing">No events of this run are recorded.</p>}
      {table}
      {list?.more && (
        <button
          type="button"
          disabled={busy}
          onClick={() => setRoom(list.events.length + kOlder)}
        >
          {busy ? "Loading…" : "Older events"}
        </button>
      )}
    </section>
  );
}
