import type { RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

// How wide an element is now, in CSS pixels; 0 before it is laid out.
export function useWidth(place: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  const [element, setElement] = useState<HTMLElement | null>(null);
  useLayoutEffect(() => setElement(place.current)); // it may be drawn later, or anew
  useLayoutEffect(() => {
    if (!element) return;
    const measure = () => setWidth(Math.floor(element.clientWidth));
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    return () => watch.disconnect();
  }, [element]);
  return width;
}
