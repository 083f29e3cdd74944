// Lists of names as Slurm writes them: "dgx[01-04,07],login". What cannot be read stays one name.

const kMost = 65_536; // names of one list

// "01-04,07" as its numbers' texts; null where it is none.
function numbers(text: string): string[] | null {
  const found: string[] = [];
  for (const part of text.split(",")) {
    const match = /^(\d+)(?:-(\d+))?$/.exec(part);
    if (!match?.[1]) return null;
    const [first, last] = [Number(match[1]), Number(match[2] ?? match[1])];
    if (last < first || last - first >= kMost) return null;
    const width = match[1].length;
    for (let at = first; at <= last; at += 1) found.push(String(at).padStart(width, "0"));
  }
  return found;
}

function expandOne(text: string): string[] {
  const match = /^([^[\]]*)\[([^[\]]*)\](.*)$/.exec(text);
  if (!match) return [text];
  const [, head = "", list = "", tail = ""] = match;
  const found = numbers(list);
  if (!found) return [text];
  const ends = expandOne(tail);
  if (found.length * ends.length > kMost) return [text];
  return found.flatMap((number) => ends.map((end) => `${head}${number}${end}`));
}

export function expandHosts(list: string): string[] {
  const parts = list.match(/(?:[^,[\]]|\[[^\]]*\])+/g) ?? [];
  return parts.flatMap((part) => expandOne(part.trim())).slice(0, kMost);
}

function ranges(texts: string[]): string {
  const parts: [string, string][] = [];
  for (const text of texts) {
    const newest = parts[parts.length - 1];
    if (newest && Number(newest[1]) + 1 === Number(text)) newest[1] = text;
    else parts.push([text, text]);
  }
  return parts.map(([a, b]) => (a === b ? a : `${a}-${b}`)).join(",");
}

// By their prefix and the width of their number; in the order of their first.
export function compressHosts(names: string[]): string {
  const groups = new Map<string, { prefix: string; texts: string[] }>();
  for (const name of new Set(names)) {
    const [, prefix = name, text = ""] = /^(.*?)(\d+)$/.exec(name) ?? [];
    const key = text === "" ? `=${name}` : `${prefix}#${text.length}`;
    const group = groups.get(key) ?? { prefix, texts: [] };
    if (text !== "") group.texts.push(text);
    groups.set(key, group);
  }
  return [...groups.values()]
    .map(({ prefix, texts }) => {
      if (texts.length === 0) return prefix;
      if (texts.length === 1) return prefix + texts[0];
      return `${prefix}[${ranges(texts.sort((a, b) => Number(a) - Number(b)))}]`;
    })
    .join(",");
}
