import { useEffect } from "preact/hooks";
import { drawnName, withoutEscapes } from "../base/format";
import { kTabs, kViews, runHash } from "../base/route";

const titled = (name: string) => name.charAt(0).toUpperCase() + name.slice(1);

// An address that leads nowhere, as one that was cut or mistyped; with what there is.
export function NoView({ path, run }: { path: string; run: string | null }) {
  useEffect(() => {
    document.title = "No such view · Regatta";
  }, []);
  const places: [string, string][] =
    run == null
      ? [["#/", "Runs"], ...kViews.map((view): [string, string] => [`#/${view}`, titled(view)])]
      : kTabs.map((tab) => [runHash(run, tab), titled(tab)]);
  return (
    <section class="empty">
      <h1>There is no such view</h1>
      <p>
        {run == null ? (
          <>
            The address <code>#{drawnName(path)}</code> leads nowhere. There are:
          </>
        ) : (
          <>
            The run <code>{withoutEscapes(run)}</code> has these:
          </>
        )}
      </p>
      <p class="ways-out">
        {places.map(([hash, name]) => (
          <a key={hash} href={hash}>
            {name}
          </a>
        ))}
      </p>
      {run != null && (
        <p>
          <a href="#/">All runs</a>
        </p>
      )}
    </section>
  );
}
