import { useLayoutEffect, useRef } from "preact/hooks";

// Where the focus goes when what had it went away, as a button does whose deed is done, and the
// opener of a dialog that changes what is behind it. `now` changes with that.
export function useRefuge<Place extends HTMLElement>(now: unknown) {
  const place = useRef<Place>(null);
  const before = useRef(now);
  useLayoutEffect(() => {
    if (before.current === now) return;
    before.current = now;
    if (!place.current || document.activeElement !== document.body) return;
    place.current.tabIndex = -1;
    place.current.focus();
  }, [now]);
  return place;
}
