import { useLayoutEffect, useState } from "preact/hooks";

// Everything that a reload must keep is in the hash: #/?state=failed, #/runs/<id>[/<tab>],
// #/sweeps/<id>, #/experiments/<id>, #/<view>.
export const kTabs = ["curves", "time", "checkpoints", "plan", "log", "events", "details"] as const;
export type Tab = (typeof kTabs)[number];
export const kViews = [
  "compare",
  "sweeps",
  "experiments",
  "nodes",
  "cluster",
  "events",
  "submit",
  "settings",
] as const;
export type View = (typeof kViews)[number];
export type Route = { query: URLSearchParams } & (
  | { page: "runs" }
  | { page: "run"; id: string; tab: Tab }
  | { page: "sweep" | "experiment"; id: string }
  | { page: View }
  | { page: "none"; path: string; run: string | null } // there is no such view, of this run or at all
);

export function parseRoute(hash: string): Route {
  const [, path = "", search = ""] = /^#([^?]*)\??(.*)$/.exec(hash) ?? [];
  const query = new URLSearchParams(search);
  const view = kViews.find((name) => path === `/${name}`);
  if (view) return { page: view, query };
  const match = /^\/runs\/([^/]+)(?:\/([^/]+))?\/?$/.exec(path);
  if (/^\/?(runs\/?)?$/.test(path)) return { page: "runs", query };
  const nowhere = { page: "none", path, query } as const;
  const [, many, one = ""] = /^\/(sweeps|experiments)\/([^/]+)\/?$/.exec(path) ?? [];
  try {
    if (many) {
      const page = many === "sweeps" ? "sweep" : "experiment";
      return { page, id: decodeURIComponent(one), query };
    }
    const id = decodeURIComponent(match?.[1] ?? "");
    if (id === "") return { ...nowhere, run: null };
    const tab = kTabs.find((name) => name === (match?.[2] ?? kTabs[0]));
    return tab ? { page: "run", id, tab, query } : { ...nowhere, run: id };
  } catch {
    return { ...nowhere, run: null };
  }
}

export function runHash(id: string, tab?: Tab): string {
  return `#/runs/${encodeURIComponent(id)}${tab && tab !== kTabs[0] ? `/${tab}` : ""}`;
}

export const sweepHash = (id: string) => `#/sweeps/${encodeURIComponent(id)}`;
export const experimentHash = (id: string) => `#/experiments/${encodeURIComponent(id)}`;

// The address with other values of the query; null takes one out.
export function withQuery(hash: string, changes: Record<string, string | null>): string {
  const [, path = "", search = ""] = /^([^?]*)\??(.*)$/.exec(hash) ?? [];
  const query = new URLSearchParams(search);
  for (const [key, value] of Object.entries(changes)) {
    if (value == null || value === "") query.delete(key);
    else query.set(key, value);
  }
  query.sort();
  const text = query.toString();
  return (path || "#/") + (text && `?${text}`);
}

// Goes there; in place of where one is for what is no place of its own, as each letter that is typed.
export function go(hash: string, how: "visit" | "replace" = "visit") {
  if (hash === (location.hash || "#/")) return;
  if (how === "visit") {
    location.hash = hash;
    return;
  }
  history.replaceState(null, "", hash);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}
export function setQuery(changes: Record<string, string | null>, how?: "visit" | "replace") {
  go(withQuery(location.hash, changes), how);
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  // At once: an address that changes before the first effects run is followed, too.
  useLayoutEffect(() => {
    const follow = () => setRoute(parseRoute(location.hash));
    window.addEventListener("hashchange", follow);
    return () => window.removeEventListener("hashchange", follow);
  }, []);
  return route;
}
