import { useRef } from "preact/hooks";
import type { Axis, Brush } from "./axes";
import { brushOf, endText, lowestEnd, movedEnd, wholeOf } from "./axes";
import type { Layout } from "./layout";

const kGrip = 30; // px across an axis, where a drag chooses a part of it
const kHandle = 24; // px, so that a finger meets it
const kLeastDrag = 4; // px

interface AxisProps {
  axis: Axis;
  index: number;
  layout: Layout;
  brush: Brush | undefined;
  onBrush: (brush: Brush | null) => void;
}

// Follows a pointer from where it was pressed; `held` is the end of the brush that stays.
function useDrag({ axis, layout, onBrush }: Omit<AxisProps, "index" | "brush">, press: () => void) {
  const drag = useRef<{ held: number; x: number; y: number; isMoved: boolean } | null>(null);
  const placeOf = (event: PointerEvent) => {
    const frame = (event.currentTarget as SVGElement).ownerSVGElement?.getBoundingClientRect();
    return layout.placeAt(event.clientX - (frame?.left ?? 0), event.clientY - (frame?.top ?? 0));
  };
  return {
    begin: (event: PointerEvent, held: number | null) => {
      if (event.button !== 0) return;
      event.stopPropagation();
      (event.currentTarget as SVGElement).setPointerCapture(event.pointerId);
      const { clientX: x, clientY: y } = event;
      drag.current = { held: held ?? placeOf(event), x, y, isMoved: false };
    },
    move: (event: PointerEvent) => {
      const now = drag.current;
      if (!now) return;
      now.isMoved ||= Math.hypot(event.clientX - now.x, event.clientY - now.y) >= kLeastDrag;
      if (now.isMoved) onBrush(brushOf(axis, now.held, placeOf(event)));
    },
    end: () => {
      if (drag.current && !drag.current.isMoved) press();
      drag.current = null;
    },
    cancel: () => void (drag.current = null), // a finger scrolls the page
  };
}

const kMoves: Record<string, number> = {
  ArrowUp: 1,
  ArrowRight: 1,
  ArrowDown: -1,
  ArrowLeft: -1,
  PageUp: 4,
  PageDown: -4,
};

// One end of what is chosen: a slider, for fingers and keys alike.
function Handle({ end, ...props }: AxisProps & { end: keyof Brush }) {
  const { axis, index, layout, brush, onBrush } = props;
  const whole = wholeOf(axis);
  const now = brush ?? whole;
  const other = end === "low" ? now.high : now.low;
  const drag = useDrag(props, () => undefined);
  const set = (place: number) => {
    const crosses = end === "low" ? place > other : place < other;
    onBrush(brushOf(axis, crosses ? other : place, other));
  };
  const key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = kMoves[event.key];
    if (by != null) set(movedEnd(axis, end, now[end], by));
    else if (event.key === "Home") set(lowestEnd(axis, end));
    else if (event.key === "End") set(whole.high);
    else if (event.key === "Escape" && brush) onBrush(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  // Beyond the end, so that the two never lie on each other.
  const out = (end === "low") === !layout.isRows ? kHandle / 2 : -kHandle / 2;
  const [across, along] = [layout.across(index), layout.along(now[end])];
  const at = (beyond: number) =>
    layout.isRows ? ([along + beyond, across] as const) : ([across, along + beyond] as const);
  const [[x, y], [barX, barY]] = [at(out), at(out * 0.4)];
  const share = (place: number) =>
    Math.round((100 * (place - whole.low)) / (whole.high - whole.low));
  const [wide, tall] = layout.isRows ? [5, 16] : [16, 5];
  return (
    <g
      class="axis-handle"
      role="slider"
      tabindex={0} // as SVG spells it
      aria-label={`${axis.title}, ${end === "low" ? "lower" : "upper"} end`}
      aria-orientation={layout.isRows ? "horizontal" : "vertical"}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={share(now[end])}
      aria-valuetext={endText(axis, now[end], end)}
      onKeyDown={key}
      onPointerDown={(event) => drag.begin(event, other)}
      onPointerMove={drag.move}
      onPointerUp={drag.end}
      onPointerCancel={drag.cancel}
    >
      <rect
        class="reach"
        x={x - kHandle / 2}
        y={y - kHandle / 2}
        width={kHandle}
        height={kHandle}
      />
      <rect
        class={brush ? "bar set" : "bar"}
        x={barX - wide / 2}
        y={barY - tall / 2}
        width={wide}
        height={tall}
        rx={2.5}
      />
    </g>
  );
}

// What chooses a part of an axis: a drag along it, or its two ends.
export function AxisBrush(props: AxisProps) {
  const { axis, index, layout, brush, onBrush } = props;
  const drag = useDrag(props, () => onBrush(null));
  const strip = (from: number, to: number, width: number) => {
    const [a, b] = [layout.along(from), layout.along(to)];
    const [start, size, across] = [Math.min(a, b), Math.abs(a - b), layout.across(index)];
    return layout.isRows
      ? { x: start, y: across - width / 2, width: size, height: width }
      : { x: across - width / 2, y: start, width, height: size };
  };
  const whole = wholeOf(axis);
  return (
    <g class={layout.isRows ? "axis-brush rows" : "axis-brush"}>
      {brush && <rect class="chosen-part" {...strip(brush.low, brush.high, 14)} rx={2} />}
      <rect
        class="grip"
        data-axis={axis.key}
        {...strip(whole.low, whole.high, kGrip)}
        onPointerDown={(event) => drag.begin(event, null)}
        onPointerMove={drag.move}
        onPointerUp={drag.end}
        onPointerCancel={drag.cancel}
      />
      <Handle {...props} end="low" />
      <Handle {...props} end="high" />
    </g>
  );
}
