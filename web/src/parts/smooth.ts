// The line of least squares through a window of about a fiftieth of the rows, at its place: in the
// middle a centred mean, which does not lag behind as a running one would; at the ends, where the
// window cannot be centred, neither that nor one noisy value. Gaps stay gaps. `starts`: indices at
// which it begins anew, as what is before and behind them is not of one piece.
export function smooth(
  values: readonly (number | null | undefined)[],
  starts: readonly number[] = [],
): (number | null)[] {
  const few = Math.max(2, Math.min(5, Math.floor(values.length / 8))); // what a short curve allows
  const reach = Math.max(few, Math.round(values.length / 100));
  const ends = [...starts, values.length];
  let [from, piece] = [0, 0];
  return values.map((value, i) => {
    for (; i >= (ends[piece] ?? values.length); piece += 1) from = ends[piece] ?? from;
    if (value == null) return null; // no finite number in the journal: a loss that overflowed
    const end = ends[piece] ?? values.length;
    const width = Math.min(end - from, 2 * reach + 1);
    const low = Math.max(from, Math.min(i - reach, end - width));
    let [n, x, y, xx, xy] = [0, 0, 0, 0, 0];
    for (let k = low; k < low + width; ++k) {
      const of = values[k];
      if (of == null) continue;
      n += 1;
      x += k - i;
      y += of;
      xx += (k - i) * (k - i);
      xy += (k - i) * of;
    }
    const spread = n * xx - x * x;
    return spread > 0 ? (y * xx - x * xy) / spread : y / n;
  });
}
