import { withoutEscapes } from "../base/format";
import type { Standing } from "./standing";
import { standingOf } from "./standing";

// Lines in a square of 20 whose corner is at x, y.
const kShapes: Record<Standing, (x: number, y: number) => string> = {
  free: (x, y) => `M${x + 10} ${y + 6}a4 4 0 1 0 .01 0z`,
  busy: (x, y) => `M${x + 7.5} ${y + 5.5}v9l6.5-4.5z`,
  held: (x, y) => `M${x + 10} ${y + 5}l5 5-5 5-5-5z`,
  drained: (x, y) => `M${x + 7.5} ${y + 6}v8M${x + 12.5} ${y + 6}v8`,
  down: (x, y) => `M${x + 6.5} ${y + 6.5}l7 7M${x + 13.5} ${y + 6.5}l-7 7`,
  unknown: (x, y) => `M${x + 10} ${y + 10}h.01`,
};
export const shapeAt = (standing: Standing, x: number, y: number) => kShapes[standing](x, y);

export function StandingIcon({ standing, size = 16 }: { standing: Standing; size?: number }) {
  return (
    <svg
      class={`standing ${standing}`}
      viewBox="2 2 16 16"
      width={size}
      height={size}
      aria-hidden="true"
    >
      <path class="shape" d={shapeAt(standing, 0, 0)} />
    </svg>
  );
}

// The state's own word with the shape and the colour of what it means.
export function NodeState({ state }: { state: string }) {
  const standing = standingOf(state);
  return (
    <span class={`node-state ${standing}`}>
      <StandingIcon standing={standing} />
      {withoutEscapes(state)}
    </span>
  );
}
