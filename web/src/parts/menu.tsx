import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

// A button with a panel below it, which a press elsewhere or Escape closes.
export function Menu({
  label,
  onToggle,
  children,
}: {
  label: ComponentChildren;
  onToggle?: (isOpen: boolean) => void;
  children: ComponentChildren;
}) {
  const place = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const outside = (event: Event) => {
      if (element.open && !element.contains(event.target as Node)) element.open = false;
    };
    const escape = (event: KeyboardEvent) => {
      if (event.key !== "Escape" || !element.open) return;
      event.preventDefault();
      element.open = false;
      element.querySelector("summary")?.focus();
    };
    document.addEventListener("pointerdown", outside);
    document.addEventListener("focusin", outside);
    element.addEventListener("keydown", escape);
    return () => {
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("focusin", outside);
      element.removeEventListener("keydown", escape);
    };
  }, []);
  return (
    <details
      class="menu"
      ref={place}
      onToggle={(event) => onToggle?.(event.currentTarget.open)}
    >
      <summary class="button">
        {label}
      </summary>
      <div class="panel">{children}</div>
    </details>
  );
}
