// The part of a log that the page holds: pieces that follow each other, at most half a megabyte.
import type { LogPart } from "./logs_api";

export const kMostShown = 512 * 1024; // bytes; the file has them all
const kSmallPiece = 16 * 1024; // what comes behind a smaller one joins it

export interface Piece {
  offset: number;
  next: number;
  text: string;
  beginsInLine: boolean;
}
export interface LogWindow {
  file: string | null;
  size: number; // of the file, as it was last told
  target: number | null; // the offset of a line that was asked for: a piece begins there
  pieces: Piece[];
}

export const begin = (shown: LogWindow) => shown.pieces[0]?.offset ?? 0;
export const end = (shown: LogWindow) => shown.pieces[shown.pieces.length - 1]?.next ?? 0;

function pieceOf(part: LogPart, asked: number): Piece {
  const offset = part.offset ?? asked;
  return { offset, next: part.next, text: part.text, beginsInLine: part.begins_in_line ?? false };
}

function sizeOf(part: LogPart): number {
  return part.size ?? part.next;
}

export function open(
  parts: [LogPart, ...LogPart[]],
  asked: number,
  target: number | null,
): LogWindow {
  const pieces = parts.map((part) => pieceOf(part, asked)).filter(({ text }) => text !== "");
  const last = parts[parts.length - 1] ?? parts[0];
  return { file: last.file ?? null, size: sizeOf(last), target, pieces };
}

// What came behind; pieces at the begin go, where it becomes too much.
export function append(shown: LogWindow, part: LogPart): LogWindow {
  const size = Math.max(sizeOf(part), end(shown));
  if (part.text === "") return { ...shown, size };
  const piece = pieceOf(part, end(shown));
  const pieces = shown.pieces.slice();
  const last = pieces[pieces.length - 1];
  const joins = last && last.next - last.offset < kSmallPiece && last.offset !== shown.target;
  if (joins) {
    pieces[pieces.length - 1] = { ...last, next: piece.next, text: last.text + piece.text };
  } else pieces.push(piece);
  let first = 0;
  const isTooMuch = () => piece.next - (pieces[first]?.offset ?? 0) > kMostShown;
  while (first + 1 < pieces.length && isTooMuch()) first += 1;
  return { ...shown, size, pieces: pieces.slice(first) };
}

// What came before; pieces at the end go.
export function prepend(shown: LogWindow, part: LogPart): LogWindow {
  if (part.text === "") return shown;
  const piece = pieceOf(part, 0);
  const pieces = [piece, ...shown.pieces];
  while (pieces.length > 1 && (pieces[pieces.length - 1]?.next ?? 0) - piece.offset > kMostShown) {
    pieces.pop();
  }
  return { ...shown, pieces };
}

// Whether an answer is of another file, or of one that was cut, so that the window has to be opened
// anew.
export function isOther(shown: LogWindow, part: LogPart): boolean {
  return (part.file ?? null) !== shown.file || sizeOf(part) < end(shown);
}
// There is more behind the window than the page would hold.
export function isFarBehind(shown: LogWindow, part: LogPart): boolean {
  return sizeOf(part) - end(shown) > kMostShown;
}
