import type { ComponentChildren, RefObject, VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { onTheme } from "../base/theme";
import type { Carry, Run, Style } from "./ansi";
import { kNothing, parse } from "./ansi";
import type { Theme } from "./colours";
import { colours, rgb } from "./colours";
import type { LogWindow, Piece } from "./log_window";

// The theme's colours, of the style sheet.
function readTheme(): Theme {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => rgb(style.getPropertyValue(`--${name}`).trim());
  return { page: colour("code"), text: colour("text"), muted: colour("muted") };
}
function useTheme(): Theme {
  const [theme, setTheme] = useState(readTheme);
  useEffect(() => onTheme(() => setTheme(readTheme())), []);
  return theme;
}

const kClasses = ["bold", "italic", "underline", "strike"] as const;

function classOf(style: Style): string | undefined {
  return kClasses.filter((name) => style[name]).join(" ") || undefined;
}

function drawRun(run: Run, theme: Theme, index: number): ComponentChildren {
  if (run.isNote) {
    return (
      <span key={index} class="left-out">
        {run.text}
      </span>
    );
  }
  if (run.style == null) return run.text;
  return (
    <span key={index} class={classOf(run.style)} style={{ ...colours(run.style, theme) }}>
      {run.text}
    </span>
  );
}

// The line that was asked for, and what is behind it.
function splitLine(runs: Run[]): [Run[], Run[]] {
  for (const [index, run] of runs.entries()) {
    const cut = run.text.indexOf("\n");
    if (cut < 0) continue;
    const [head, tail] = [run.text.slice(0, cut), run.text.slice(cut)];
    return [
      [...runs.slice(0, index), { ...run, text: head }],
      [{ ...run, text: tail }, ...runs.slice(index + 1)],
    ];
  }
  return [runs, []];
}

interface Drawn {
  carry: Carry; // before it
  isLast: boolean;
  result: { runs: Run[]; carry: Carry };
  theme: Theme;
  isTarget: boolean;
  node: VNode;
}
const drawn = new WeakMap<Piece, Drawn>();

// A piece that is as it was is the same node again, which Preact passes over.
function drawPiece(
  piece: Piece,
  carry: Carry,
  isLast: boolean,
  isTarget: boolean,
  theme: Theme,
  mark: RefObject<HTMLElement | null>,
): Drawn {
  const old = drawn.get(piece);
  const isParsed =
    old?.isLast === isLast &&
    old.carry.style === carry.style &&
    old.carry.open === carry.open;
  if (isParsed && old.theme === theme && old.isTarget === isTarget) return old;
  const result = isParsed ? old.result : parse(piece.text, carry, isLast);
  const [line, rest] = isTarget ? splitLine(result.runs) : [[], result.runs];
  const node = (
    <span key={piece.offset}>
      {isTarget && (
        <mark class="hit" ref={mark}>
          {line.map((run, index) => drawRun(run, theme, index))}
        </mark>
      )}
      {rest.map((run, index) => drawRun(run, theme, index))}
    </span>
  );
  const now = { carry, isLast, result, theme, isTarget, node };
  drawn.set(piece, now);
  return now;
}

export function LogText({
  shown,
  label,
  wraps,
  follows,
  place,
  onLeave,
}: {
  shown: LogWindow;
  label: string;
  wraps: boolean;
  follows: boolean;
  place: RefObject<HTMLPreElement | null>;
  onLeave: () => void; // the reader has scrolled away from the end
}) {
  const theme = useTheme();
  const mark = useRef<HTMLElement>(null);
  const before = useRef({ first: -1, height: 0 });
  let carry = kNothing;
  const nodes = shown.pieces.map((piece, index) => {
    const isLast = index === shown.pieces.length - 1;
    const isTarget = piece.offset === shown.target;
    const now = drawPiece(piece, carry, isLast, isTarget, theme, mark);
    carry = now.result.carry;
    return now.node;
  });
  const first = shown.pieces[0]?.offset ?? 0;
  useLayoutEffect(() => {
    const box = place.current;
    if (!box) return;
    const { first: old, height } = before.current;
    // What comes before moves nothing that is read.
    if (old > first) box.scrollTop += box.scrollHeight - height;
    else if (follows) box.scrollTop = box.scrollHeight;
    before.current = { first, height: box.scrollHeight };
  });
  useLayoutEffect(() => {
    const box = place.current;
    if (!box || !mark.current) return;
    box.scrollTop = mark.current.offsetTop - box.clientHeight / 3; // .log is positioned
  }, [shown.target, shown.file]);
  const onScroll = () => {
    const box = place.current;
    if (!box || !follows) return;
    if (box.scrollHeight - box.scrollTop - box.clientHeight > 24) onLeave();
  };
  return (
    <pre
      class={wraps ? "log" : "log unwrapped"}
      ref={place}
      onScroll={onScroll}
      tabIndex={0}
      role="region"
      aria-label={label}
    >
      {shown.pieces[0]?.beginsInLine && <span class="left-out">… </span>}
      {nodes}
    </pre>
  );
}
