import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";

// A "?" beside the name of something, and beneath it what that is, once it is pressed. Escape closes
// it; the focus stays.
export function useHelp(
  name: string,
  text: string | undefined,
): { button: ComponentChildren; note: ComponentChildren } {
  const [open, setOpen] = useState(false);
  const place = useId();
  if (text == null) return { button: null, note: null };
  const escape = (event: KeyboardEvent) => {
    if (event.key !== "Escape" || !open) return;
    event.preventDefault();
    setOpen(false);
  };
  const button = (
    <button
      type="button"
      class="help"
      aria-label={`About ${name}`}
      aria-expanded={open}
      aria-controls={open ? place : undefined}
      onClick={() => setOpen(!open)}
      onKeyDown={escape}
    />
  );
  return { button, note: open && <span id={place}>{text}</span> };
}
