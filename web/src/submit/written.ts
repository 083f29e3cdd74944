// What a YAML text sets: the keys that are in it, and the text of those with a plain value. The
// meaning of values is the controller's to tell; this finds only where they are. It reads what
// people write in run files and gives up on the rest (anchors, tags, several documents), where the
// form falls back on what the controller has read.

// By key, such as "model.layers"; null: a list, or a text over several lines.
export type Written = Map<string, string | null>;

class Unread extends Error {}

const kKey = /^(?:"([^"\\]*)"|'([^']*)'|([A-Za-z_][\w-]*))[ \t]*:(?=\s|$)/;
const kOther = /^[&*!|>%@`?]|^- |^-$/; // begins something that is no plain text

interface Lines {
  all: string[];
  at: number;
}

const indentOf = (line: string) => line.length - line.trimStart().length;
const isBlank = (line: string) => /^\s*(#|$)/.test(line);

function skipBlank(lines: Lines) {
  while (lines.at < lines.all.length && isBlank(lines.all[lines.at] ?? "")) lines.at += 1;
}

// The next line that says something; null: there is none.
function next(lines: Lines): { indent: number; text: string } | null {
  skipBlank(lines);
  const line = lines.all[lines.at];
  return line == null ? null : { indent: indentOf(line), text: line.trimStart() };
}

function keyOf(text: string): { key: string; rest: string } {
  const match = kKey.exec(text);
  const key = match?.[1] ?? match?.[2] ?? match?.[3];
  if (!match || key == null || /[.\s]/.test(key) || key === "") throw new Unread();
  return { key, rest: text.slice(match[0].length).trimStart() };
}

// A quoted text at the begin, and what is behind it; null: one with escapes.
function quoted(text: string): { value: string | null; rest: string } {
  const match = /^"((?:[^"\\]|\\.)*)"|^'((?:[^']|'')*)'/.exec(text);
  if (!match) throw new Unread();
  const [all, double, single] = match;
  const value = double == null ? (single ?? "").replaceAll("''", "'") : double;
  return { value: double?.includes("\\") ? null : value, rest: text.slice(all.length) };
}

const isQuote = (text: string) => text.startsWith('"') || text.startsWith("'");

// A list in brackets, or all of a value that is not looked into: what is behind it.
function behindList(text: string): string {
  let depth = 0;
  let rest = text;
  while (rest !== "") {
    if (isQuote(rest)) {
      rest = quoted(rest).rest;
      continue;
    }
    if ("[{".includes(rest.charAt(0))) depth += 1;
    if ("]}".includes(rest.charAt(0))) depth -= 1;
    rest = rest.slice(1);
    if (depth === 0) return rest;
  }
  throw new Unread();
}

// A mapping in braces: what is behind it.
function readBraces(text: string, prefix: string, into: Written): string {
  let rest = text.slice(1).trimStart();
  while (!rest.startsWith("}")) {
    const { key, rest: value } = keyOf(rest);
    rest = readInBraces(value, prefix + key, into).trimStart();
    if (rest.startsWith(",")) rest = rest.slice(1).trimStart();
    else if (!rest.startsWith("}")) throw new Unread();
  }
  return rest.slice(1);
}

function readInBraces(text: string, key: string, into: Written): string {
  if (text.startsWith("{")) return readBraces(text, `${key}.`, into);
  if (text.startsWith("[")) {
    into.set(key, null);
    return behindList(text);
  }
  if (isQuote(text)) {
    const { value, rest } = quoted(text);
    into.set(key, value);
    return rest;
  }
  const plain = /^[^,{}[\]]*/.exec(text)?.[0] ?? "";
  if (kOther.test(plain) || /:\s|\n/.test(plain.trim())) throw new Unread();
  if (plain.trim() !== "") into.set(key, plain.trim());
  return text.slice(plain.length);
}

const withoutComment = (text: string) => text.replace(/(^|\s)#.*$/, "").trim();

// The text from here to where its brackets are closed, which may be some lines further.
function bracketed(lines: Lines, begin: string): string {
  let text = withoutComment(begin);
  const isOpen = () => {
    const bare = text.replace(/"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'/g, "");
    return bare.replace(/[^[{]/g, "").length > bare.replace(/[^\]}]/g, "").length;
  };
  while (isOpen()) {
    const line = lines.all[lines.at];
    if (line == null) throw new Unread();
    lines.at += 1;
    text += ` ${withoutComment(line)}`;
  }
  return text;
}

function skipDeeper(lines: Lines, indent: number) {
  for (let line = next(lines); line && line.indent > indent; line = next(lines)) lines.at += 1;
}

// A list whose lines may be as far in as their key is.
function skipList(lines: Lines, indent: number) {
  const isItem = (text: string) => text.startsWith("- ") || text === "-";
  for (let line = next(lines); line; line = next(lines)) {
    if (line.indent < indent || (line.indent === indent && !isItem(line.text))) return;
    lines.at += 1;
  }
}

function readValue(lines: Lines, text: string, indent: number, key: string, into: Written) {
  const value = withoutComment(text);
  if (/^[|>]/.test(value)) {
    into.set(key, null);
    return skipDeeper(lines, indent);
  }
  const follows = next(lines);
  if (value === "") {
    if (follows && follows.indent >= indent && /^-( |$)/.test(follows.text)) {
      into.set(key, null);
      return skipList(lines, indent);
    }
    if (follows && follows.indent > indent) readBlock(lines, follows.indent, `${key}.`, into);
    return;
  }
  if (/^[{[]/.test(value)) {
    const rest = readInBraces(bracketed(lines, text), key, into);
    if (rest.trim() !== "") throw new Unread();
    return;
  }
  if (follows && follows.indent > indent) throw new Unread(); // a text over several lines
  if (isQuote(value)) {
    const { value: inner, rest } = quoted(text);
    if (withoutComment(rest) !== "") throw new Unread();
    into.set(key, inner);
    return;
  }
  if (kOther.test(value) || /:\s/.test(value)) throw new Unread();
  into.set(key, value);
}

function readBlock(lines: Lines, indent: number, prefix: string, into: Written) {
  for (let line = next(lines); line && line.indent >= indent; line = next(lines)) {
    if (line.indent > indent) throw new Unread();
    const { key, rest } = keyOf(line.text);
    lines.at += 1;
    readValue(lines, rest, indent, prefix + key, into);
  }
}

// null: it is written in a way that is not read here.
export function written(text: string): Written | null {
  const all = text.replace(/^\ufeff/, "").split(/\r?\n/);
  const into: Written = new Map();
  const lines = { all, at: 0 };
  if (all.some((line) => /^ *\t/.test(line))) return null;
  if (next(lines)?.text.trimEnd() === "---") lines.at += 1;
  try {
    readBlock(lines, 0, "", into);
  } catch (error) {
    if (error instanceof Unread) return null;
    throw error;
  }
  return lines.at < all.length ? null : into;
}
