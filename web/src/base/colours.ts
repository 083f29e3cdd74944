// The colour of a run, the same wherever it is drawn: by a hash of its id, with a dash beside it,
// as colour is never the only sign. The colours are --run-0 … --run-9 of colours.css.
export const kMostColours = 10;

// Slots i and i + 5 share a dash; their colours are far apart.
const kDashes: number[][] = [[], [16, 5], [2, 3], [7, 4], [10, 4, 2, 4]];

export interface Look {
  colour: string; // name of a custom property
  dash: number[];
}

// FNV-1a, 32 bits.
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) {
    value = Math.imul(value ^ byte, 0x01000193) >>> 0;
  }
  return value;
}

export function lookOf(slot: number): Look {
  return { colour: `run-${slot}`, dash: kDashes[slot % kDashes.length] ?? [] };
}

// Slots of runs that are seen together: each has its own as long as there are so many. The first of
// a collision keeps its slot and the other takes the next free one, so that one more run changes
// none of those before it.
export function slotsOf(ids: string[]): Map<string, number> {
  const slots = new Map<string, number>();
  const taken = new Set<number>();
  for (const id of ids) {
    if (slots.has(id)) continue;
    let slot = hash(id) % kMostColours;
    if (taken.size < kMostColours) while (taken.has(slot)) slot = (slot + 1) % kMostColours;
    taken.add(slot);
    slots.set(id, slot);
  }
  return slots;
}
