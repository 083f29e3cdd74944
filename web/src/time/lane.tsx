import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import * as show from "../base/format";
import { When } from "../parts/when";
import type { Span } from "../parts/chart_data";
import type { Mark } from "./marks";
import { clusters, wordsOf, worstOf } from "./marks";

export const kMarkWidth = 26; // px; marks nearer than that stand together
const kGlyphs = { bad: "✕", warn: "!", muted: "•" };

function glyphOf(group: Mark[]): string {
  if (group.length > 1) return group.length > 99 ? "99+" : String(group.length);
  const mark = group[0];
  return mark?.isCheckpoint ? "◆" : kGlyphs[mark?.tone ?? "muted"];
}

// What is known of the events of one mark.
function Picked({ group, place }: { group: Mark[]; place: (x: number) => string }) {
  return (
    <ul class="picked" aria-live="polite">
      {group.map((mark, i) => (
        <li key={i}>
          <b class={mark.tone}>{mark.word}</b> at {place(mark.x)}
          {mark.at != null && (
            <span class="small">
              <When at={mark.at} full />
            </span>
          )}
          <span class="said">{mark.text}</span>
        </li>
      ))}
    </ul>
  );
}

// A button below the curve for each mark on it, or for several that would lie on each other. One
// stop of the tab key; arrows lead from one to the next, and what has the focus is told.
export function EventLane({
  marks,
  span,
  box,
  place,
  onPick,
}: {
  marks: Mark[];
  span: Span;
  box: { left: number; width: number }; // of the plot, in CSS pixels
  place: (x: number) => string;
  onPick: (x: number | null) => void;
}) {
  // By the first event of a group, as groups change while the run trains on: the one that takes the
  // focus, and the open one.
  const [at, setAt] = useState<number | null>(null);
  const [open, setOpen] = useState<number | null>(null);
  const hasFocus = useRef(false);
  const bar = useRef<HTMLDivElement>(null);
  const width = span.max - span.min;
  const seen = marks.filter((mark) => mark.x >= span.min && mark.x <= span.max);
  const groups = box.width > 0 ? clusters(seen, (width / box.width) * kMarkWidth) : [];
  const holding = (x: number | null) =>
    groups.findIndex((group) => group.some((one) => one.x === x));
  const shown = groups[holding(open)];
  const current = Math.max(0, holding(at));
  // The button that had the focus is gone where its group has joined the one before.
  useLayoutEffect(() => {
    if (!hasFocus.current || document.activeElement !== document.body) return;
    bar.current?.querySelectorAll("button")[current]?.focus();
  });
  useEffect(() => onPick(shown?.[0]?.x ?? null), [shown?.[0]?.x]);
  if (seen.length === 0) return null;
  const moveTo = (index: number) => {
    setAt(groups[index]?.[0]?.x ?? null);
    bar.current?.querySelectorAll("button")[index]?.focus();
  };
  const press = (event: KeyboardEvent) => {
    const last = groups.length - 1;
    const to = { ArrowRight: current + 1, ArrowLeft: current - 1, Home: 0, End: last }[event.key];
    if (to != null) moveTo(Math.max(0, Math.min(last, to)));
    else if (event.key === "Escape" && open != null) setOpen(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <>
      <div
        class="lane"
        role="toolbar"
        aria-label="Events on the curve"
        ref={bar}
        onKeyDown={press}
        style={{ marginLeft: `${box.left}px`, width: `${box.width}px` }}
      >
        {groups.map((group, i) => {
          const x = group[0]?.x ?? 0;
          const tone = worstOf(group)?.tone ?? "muted";
          return (
            <button
              key={x}
              type="button"
              class={`event ${tone}`}
              style={{ left: `${(100 * (x - span.min)) / width}%` }}
              tabIndex={i === current ? 0 : -1}
              aria-pressed={group === shown}
              aria-label={`${place(x)}: ${wordsOf(group)}`}
              title={show.withoutEscapes(wordsOf(group))}
              onFocus={() => {
                hasFocus.current = true;
                setAt(x);
              }}
              onBlur={({ currentTarget: button }) =>
                setTimeout(() => button.isConnected && (hasFocus.current = false))
              }
              onClick={() => setOpen(group === shown ? null : x)}
            >
              {glyphOf(group)}
            </button>
          );
        })}
      </div>
      {shown && <Picked group={shown} place={place} />}
    </>
  );
}
