// Where labels of a drawing stand, so that none covers another.
export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

const overlap = (one: Box, other: Box) =>
  one.left < other.left + other.width &&
  other.left < one.left + one.width &&
  one.top < other.top + other.height &&
  other.top < one.top + one.height;

// The wanted place or the nearest one above or below it that no other label has and that is within
// the frame; the wanted one where all is taken.
export function freePlace(wanted: Box, taken: Box[], frame: Box): Box {
  const step = wanted.height + 1;
  const most = Math.ceil(frame.height / step);
  const isFree = (box: Box) =>
    box.top >= frame.top &&
    box.top + box.height <= frame.top + frame.height &&
    !taken.some((other) => overlap(box, other));
  for (let i = 0; i <= most; i += 1) {
    for (const by of i === 0 ? [0] : [-i, i]) {
      const box = { ...wanted, top: wanted.top + by * step };
      if (isFree(box)) return box;
    }
  }
  return wanted;
}
