import type { RefObject } from "preact";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";

const kAhead = "400px"; // it is drawn before it is scrolled to

// `draw`, as long as the place is in view or about to be; else it waits until it is, or until the page
// is printed. Of twenty charts of a page a few are in view.
export function useSeen(place: RefObject<HTMLElement | null>, draw: () => void): () => void {
  const latest = useRef(draw);
  latest.current = draw;
  const state = useRef({ isSeen: true, isOld: false });
  const ask = useMemo(
    () => () => {
      state.current.isOld = !state.current.isSeen;
      if (state.current.isSeen) latest.current();
    },
    [],
  );
  useLayoutEffect(() => {
    const show = () => {
      if (!state.current.isOld) return;
      state.current.isOld = false;
      latest.current();
    };
    const watch = new IntersectionObserver(
      (all) => {
        state.current.isSeen = all[all.length - 1]?.isIntersecting ?? true;
        if (state.current.isSeen) show();
      },
      { rootMargin: kAhead },
    );
    if (place.current) watch.observe(place.current);
    window.addEventListener("beforeprint", show);
    return () => {
      watch.disconnect();
      window.removeEventListener("beforeprint", show);
    };
  }, []);
  return ask;
}
