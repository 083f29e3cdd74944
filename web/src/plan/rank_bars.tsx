import { useMemo, useRef } from "preact/hooks";
import type { RankShares, Run } from "../base/api";
import * as show from "../base/format";
import type { Table } from "../parts/chart_data";
import { pictureOfDrawing } from "../parts/picture";
import { useTwin } from "../parts/twin";
import { useWidth } from "../parts/width";
import type { Placed } from "./placement";
import { nodeOfRank } from "./placement";
import type { Quantity, Spread } from "./rank_shares";
import { barsOf, farAbove, spreadOf } from "./rank_shares";

const kHeight = 44; // px
const kNamed = 3; // ranks
const clean = show.withoutEscapes;

const kTexts: Record<Quantity, { title: string; text: (value: number) => string }> = {
  tokens: { title: "Tokens", text: show.count },
  compute_seconds: { title: "Forward and backward", text: show.duration },
};

function spreadText(quantity: Quantity, { least, most, mean }: Spread): string {
  const { text } = kTexts[quantity];
  return `${text(least)} to ${text(most)}, mean ${text(mean)}`;
}

// Who is waited for: "rank 5 on gpu-007 (1.32 × the mean)".
export function farText(shares: RankShares, attempt: Placed | undefined): string {
  const values = shares.compute_seconds;
  const far = farAbove(values);
  const mean = spreadOf(values)?.mean;
  if (mean == null) return "How long each computed is not known: the host of a GPU only enqueues.";
  if (far.length === 0) return "No rank computes a tenth longer than the mean.";
  const named = far.slice(0, kNamed).map((rank) => {
    const node = nodeOfRank(rank, attempt);
    const times = ((values[rank] ?? 0) / mean).toFixed(2);
    return `rank ${show.count(rank)}${node == null ? "" : ` on ${clean(node)}`} (${times} × the mean)`;
  });
  const rest = far.length - named.length;
  const more = rest > 0 ? ` and ${show.count(rest)} more` : "";
  return `The others wait for ${named.join(", ")}${more}.`;
}

export function tableOfShares(shares: RankShares, attempt: Placed | undefined): Table {
  return {
    columns: ["Rank", "Node", "Tokens", "Forward and backward (s)"],
    rows: shares.tokens.map((tokens, rank) => [
      rank,
      nodeOfRank(rank, attempt),
      tokens,
      shares.compute_seconds[rank] ?? null,
    ]),
  };
}

function Strip({ quantity, values, width }: {
  quantity: Quantity;
  values: (number | null)[];
  width: number;
}) {
  const spread = spreadOf(values);
  const bars = useMemo(
    () => barsOf(values, new Set(farAbove(values)), { width, height: kHeight }),
    [values, width],
  );
  if (!spread) return null;
  const { title } = kTexts[quantity];
  const text = spreadText(quantity, spread);
  const mean = kHeight * (1 - spread.mean / (spread.most || 1));
  return (
    <>
      <p class="small">
        {title} of each rank: {text}
      </p>
      <svg width={width} height={kHeight} role="img" aria-label={`${title} of each rank: ${text}`}>
        <path class="all" d={bars.all} />
        <path class="behind" d={bars.far} />
        <line class="mean" x1={0} x2={width} y1={mean} y2={mean} />
      </svg>
    </>
  );
}

// Tokens and computing of all ranks in one step, side by side: balance, and who is behind.
export function RankBars({ run, shares, attempt }: {
  run: Run;
  shares: RankShares;
  attempt: Placed | undefined;
}) {
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const title = `Ranks in step ${show.count(shares.step)}`;
  const twin = useTwin({
    title,
    file: run.id,
    table: () => tableOfShares(shares, attempt),
    picture: async () => place.current && pictureOfDrawing(title, place.current),
  });
  return (
    <figure class="rank-bars">
      <figcaption class="buckets-head">
        <h3>{title}</h3>
        {twin.tools}
      </figcaption>
      <p>{farText(shares, attempt)}</p>
      <div class="rank-strip" ref={place}>
        {width > 0 && (
          <>
            <Strip quantity="tokens" values={shares.tokens} width={width} />
            <Strip quantity="compute_seconds" values={shares.compute_seconds} width={width} />
          </>
        )}
      </div>
      {twin.table}
    </figure>
  );
}
