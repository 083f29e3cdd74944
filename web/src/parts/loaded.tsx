import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { messageOf } from "../base/request";
import { ErrorPanel } from "./notices";

// A component of a script of its own, which is loaded when it is first shown.
type Module<Name extends string, Props> = Record<Name, ComponentType<Props>>;

export function Loaded<Name extends string, Props extends object>({
  load,
  name,
  props,
}: {
  load: () => Promise<Module<Name, Props>>;
  name: Name;
  props: Props;
}) {
  const [found, setFound] = useState<{ Shown: ComponentType<Props> } | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  useEffect(() => {
    let left = false;
    load().then(
      (module) => !left && setFound({ Shown: module[name] }),
      (error: unknown) => !left && setFailure(messageOf(error)),
    );
    return () => {
      left = true;
    };
  }, [load, name]);
  if (failure != null) {
    return <ErrorPanel title="A part of the page could not be loaded; reload it" text={failure} />;
  }
  if (!found) return <p class="loading">Loading…</p>;
  return <found.Shown {...props} />;
}
