import { useEffect, useRef, useState } from "preact/hooks";
import type { Run } from "../base/api";
import { hasEnded } from "../base/api";
import { Loaded } from "../parts/loaded";
import { Menu } from "../parts/menu";
import { CancelButton } from "./cancel";
import type { Deed } from "./deeds";
import { ResumeButton } from "./resume";

const load = () => import("./deeds");

// What can be asked of the controller for this run now.
export function deedsFor(run: Run): { deed: Deed; name: string }[] {
  const over = hasEnded(run);
  const list: { deed: Deed; name: string; fits: boolean }[] = [
    { deed: "label", name: "Tags and note…", fits: true },
    { deed: "requeue", name: "Requeue…", fits: !over && run.state !== "stopping" },
    { deed: "extend", name: "Extend…", fits: over },
    { deed: "archive", name: "Archive…", fits: over && !run.archived },
    { deed: "remove", name: "Remove…", fits: over },
  ];
  return list.filter((one) => one.fits);
}

export interface RunActions {
  onChange: (run: Run) => void;
  onRemoved: (left: string | null) => void; // why files of it are still there
}

// The most likely one as a button, the others in a menu, so that a phone has room for them.
export function Actions({ run, ...rest }: RunActions & { run: Run }) {
  const { onRemoved } = rest;
  const [deed, setDeed] = useState<Deed | null>(null);
  const place = useRef<HTMLDivElement>(null);
  const acted = useRef(false);
  const onChange = (next: Run) => {
    acted.current = true;
    rest.onChange(next);
  };
  // The button that was pressed may be none of the new state's: the focus goes to the menu's.
  useEffect(() => {
    const focused = document.activeElement;
    const isLost = focused == null || focused === document.body || focused.matches(":disabled");
    if (acted.current && isLost) place.current?.querySelector("summary")?.focus();
    acted.current = false;
  }, [run.state]);
  const over = hasEnded(run);
  return (
    <div class="run-actions" ref={place}>
      {!over && <CancelButton run={run} onChange={onChange} />}
      {over && run.state !== "succeeded" && <ResumeButton run={run} onChange={onChange} />}
      <Menu label="Actions">
        {deedsFor(run).map((one) => (
          <button
            key={one.deed}
            type="button"
            class={one.deed === "remove" ? "danger" : undefined}
            onClick={(event) => {
              closeMenu(event.currentTarget);
              setDeed(one.deed);
            }}
          >
            {one.name}
          </button>
        ))}
        <a class="button" href={`#/submit?from=${encodeURIComponent(run.id)}`}>
          Edit and submit again
        </a>
      </Menu>
      {deed && (
        <Loaded
          load={load}
          name="DeedDialog"
          props={{ run, deed, onChange, onRemoved, onClose: () => setDeed(null) }}
        />
      )}
    </div>
  );
}

// The focus goes to the menu's button, to which the dialog gives it back.
function closeMenu(inside: HTMLElement) {
  const menu = inside.closest("details");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary")?.focus();
}
