// A part of Compare that is about two runs, and asked for: journals are read for it.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { usePoll } from "../base/poll";
import { setQuery } from "../base/route";
import { useRefuge } from "../parts/refuge";
import type { Known } from "./compare_api";

const kEvery = 15_000; // ms; of runs that still train

// The newest answer about the two, or what is said while there is none.
export function usePair<Told>(
  a: string,
  b: string,
  ask: (a: string, b: string, signal: AbortSignal) => Promise<Told>,
  loading: string,
): { told: Told } | { saying: string } {
  const [kept, setKept] = useState<{ of: string; told: Told } | null>(null);
  const of = `${a} ${b}`;
  const health = usePoll(of, kEvery, async (signal) => {
    const told = await ask(a, b, signal);
    setKept((old) =>
      old?.of === of && JSON.stringify(old.told) === JSON.stringify(told) ? old : { of, told },
    );
  });
  return kept?.of === of ? { told: kept.told } : { saying: health.failure ?? loading };
}

export interface Pair {
  a: string;
  b: string;
  names: [string, string];
}

// Nothing of fewer or more than two. With a baseline that is A.
export function PairPart({
  title,
  name,
  lead,
  button,
  asked,
  known,
  names,
  base,
  told,
}: {
  title: string;
  name: string; // of its section, and of what the address says
  lead: string;
  button: string;
  asked: boolean;
  known: Known[];
  names: Map<string, string>;
  base: Known | null;
  told: (pair: Pair) => ComponentChildren;
}) {
  const heading = useRefuge<HTMLHeadingElement>(asked);
  const [first, second] = known;
  if (!first || !second || known.length !== 2) return null;
  const [a, b] = base === second ? [second, first] : [first, second];
  const nameOf = ({ run }: Known) => names.get(run.id) ?? run.id;
  return (
    <section class={`compare-part ${name}`}>
      <h2 ref={heading} tabIndex={-1}>
        {title}
      </h2>
      {asked ? (
        told({ a: a.run.id, b: b.run.id, names: [nameOf(a), nameOf(b)] })
      ) : (
        <>
          <p class="small">{lead}</p>
          <button type="button" onClick={() => setQuery({ [name]: "1" })}>
            {button}
          </button>
        </>
      )}
    </section>
  );
}
