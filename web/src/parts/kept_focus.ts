import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";

// Where something within `inside` had the focus and is gone when this is drawn, `to` gets it: the
// keyboard and a screen reader would else begin at the top of the page.
export function useKeptFocus(
  inside: RefObject<HTMLElement | null>,
  to: RefObject<HTMLElement | null> = inside,
) {
  const had = inside.current?.contains(document.activeElement) ?? false;
  useLayoutEffect(() => {
    const isLost = document.activeElement == null || document.activeElement === document.body;
    if (had && isLost) to.current?.focus({ preventScroll: true });
  });
}
