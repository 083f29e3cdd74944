import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { reloadOnce } from "../base/reload";
import { messageOf } from "../base/request";
import { Dialog } from "./dialog";
import { ErrorPanel } from "./notices";

const kMissing = "A part of the page could not be loaded; reload it";

// A component of a script of its own, which is loaded when it is first shown.
type Module<Name extends string, Props> = Record<Name, ComponentType<Props>>;

export function Loaded<Name extends string, Props extends object>({
  load,
  name,
  props,
  onClose,
}: {
  load: () => Promise<Module<Name, Props>>;
  name: Name;
  props: Props;
  onClose?: () => void; // of a dialog: what cannot be loaded is said in one, too
}) {
  const [found, setFound] = useState<{ Shown: ComponentType<Props> } | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const inDialog = onClose != null;
  useEffect(() => {
    let left = false;
    setFound(null);
    setFailure(null);
    load().then(
      (module) => !left && setFound({ Shown: module[name] }),
      (error: unknown) => {
        if (left) return;
        setFailure(messageOf(error));
        if (!inDialog) void reloadOnce(); // the address tells all that is shown
      },
    );
    return () => {
      left = true;
    };
  }, [load, name, inDialog]);
  if (failure != null && onClose) {
    return (
      <Dialog title={kMissing} onClose={onClose}>
        {(close) => (
          <>
            <p class="failure">{failure}</p>
            <div class="buttons">
              <button type="button" onClick={close}>
                Close
              </button>
            </div>
          </>
        )}
      </Dialog>
    );
  }
  if (failure != null) {
    return (
      <ErrorPanel title={kMissing} text={failure}>
        <button type="button" onClick={() => location.reload()}>
          Reload
        </button>
      </ErrorPanel>
    );
  }
  if (!found) return <p class="loading">Loading…</p>;
  return <found.Shown {...props} />;
}
