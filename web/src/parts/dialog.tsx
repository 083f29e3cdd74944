import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { withoutEscapes } from "../base/format";
import { messageOf } from "../base/request";

// A native dialog, which traps the keyboard, closes on Escape and gives the focus back. It is open
// while the component is there.
export function Dialog({
  title,
  wide = false,
  onClose,
  children,
}: {
  title: string;
  wide?: boolean;
  onClose: () => void;
  children: (close: () => void) => ComponentChildren;
}) {
  const place = useRef<HTMLDialogElement>(null);
  const name = useId();
  const isHere = useRef(true);
  useLayoutEffect(() => {
    place.current?.showModal(); // before the next key comes
    return () => {
      isHere.current = false;
    };
  }, []);
  // A busy browser takes the next keys before it tells that a dialog was closed: by then another one
  // may be open in its place, which that is not about.
  const closed = () => isHere.current && onClose();
  return (
    <dialog ref={place} class={wide ? "wide" : undefined} aria-labelledby={name} onClose={closed}>
      <h2 id={name}>{withoutEscapes(title)}</h2>
      {children(() => place.current?.close())}
    </dialog>
  );
}

// Something that is asked of the controller, once at a time.
export function useAction() {
  const sent = useRef(false); // state would be a render late for a double click
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  const act = async (task: () => Promise<void>) => {
    if (sent.current) return;
    sent.current = true;
    setBusy(true);
    setFailure(null);
    try {
      await task();
    } catch (error) {
      setFailure(messageOf(error));
    } finally {
      sent.current = false;
      setBusy(false);
    }
  };
  return { busy, failure, act };
}
