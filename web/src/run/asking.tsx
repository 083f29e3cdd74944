import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { freshKey } from "../base/fresh_key";
import { Refusal, messageOf } from "../base/request";
import { Dialog, useAction } from "../parts/dialog";

// No answer is no refusal: what was asked for may be under way, or done.
export function failureOf(error: unknown, refused: string): string {
  if (error instanceof Refusal) return `${refused}: ${error.message}`;
  const isLate = error instanceof Error && error.name === "AbortError";
  const why = isLate ? "" : ` (${messageOf(error)})`;
  return `No answer${why}; it may have been done. Press again: it is done once.`;
}

// What is asked of the controller for a run, with an Idempotency-Key that stays until it is known
// to be done. `what`: what is asked for, as another needs another key.
export function useAsking(refused = "Not done") {
  const { busy, failure, act } = useAction();
  const kept = useRef<{ what: string; key: string } | null>(null);
  const ask = (what: string, task: (key: string) => Promise<void>) =>
    act(async () => {
      if (kept.current?.what !== what) kept.current = { what, key: freshKey() };
      try {
        await task(kept.current.key);
      } catch (error) {
        throw new Error(failureOf(error, refused));
      }
      kept.current = null;
    });
  return { busy, failure, ask };
}

// A dialog that asks one thing of the controller, once, and says why where that is refused.
export function Asking({
  title,
  does,
  doing,
  leave = "Leave it",
  refused,
  isDangerous = false,
  isReady = true,
  what = "",
  task,
  onClose,
  children,
}: {
  title: string;
  does: string;
  doing: string;
  leave?: string;
  refused?: string;
  isDangerous?: boolean;
  isReady?: boolean;
  what?: string; // of the fields, as a text
  task: (key: string) => Promise<void>;
  onClose: () => void;
  children: ComponentChildren;
}) {
  const { busy, failure, ask } = useAsking(refused);
  return (
    <Dialog title={title} onClose={onClose}>
      {(close) => (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (isReady) void ask(what, async (key) => void (await task(key), close()));
          }}
        >
          {children}
          {failure && (
            <p class="failure" role="alert">
              {failure}
            </p>
          )}
          <div class="buttons">
            <button type="button" onClick={close}>
              {leave}
            </button>
            <button
              type="submit"
              class={isDangerous ? "danger solid" : "primary"}
              disabled={busy || !isReady}
            >
              {busy ? doing : does}
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
