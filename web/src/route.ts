import { useEffect, useState } from "preact/hooks";

// Everything that a reload must keep is in the hash: #/ or #/runs/<id>[/<tab>].
export const kTabs = ["checkpoints", "plan", "log", "details"] as const;
export type Tab = (typeof kTabs)[number];
export type Route = { page: "runs" } | { page: "run"; id: string; tab: Tab };

export function parseRoute(hash: string): Route {
  const match = /^#\/runs\/([^/]+)(?:\/([a-z]+))?\/?$/.exec(hash);
  if (!match?.[1]) return { page: "runs" };
  const tab = kTabs.find((name) => name === match[2]) ?? kTabs[0];
  try {
    return { page: "run", id: decodeURIComponent(match[1]), tab };
  } catch {
    return { page: "runs" };
  }
}

export function runHash(id: string, tab?: Tab): string {
  return `#/runs/${encodeURIComponent(id)}${tab && tab !== kTabs[0] ? `/${tab}` : ""}`;
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const follow = () => setRoute(parseRoute(location.hash));
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  return route;
}
