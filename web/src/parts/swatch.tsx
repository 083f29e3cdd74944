import type { Look } from "../base/colours";

// A piece of a line, as the charts draw it.
export function Swatch({ look }: { look: Look }) {
  return (
    <svg class="swatch" width="30" height="10" aria-hidden="true">
      <line
        x1={1}
        x2={29}
        y1={5}
        y2={5}
        style={{ stroke: `var(--${look.colour})` }}
        stroke-dasharray={look.dash.join(" ")}
      />
    </svg>
  );
}
