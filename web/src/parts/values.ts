// Values of files that the API hands on as they are, as text.
import { kUnseen } from "../base/format";

const kMostWhole = 2 ** 64; // above, a number was none of a whole kind
export const kRounded = /^about -?\d+ \(rounded\)$/;

// The browser has large whole numbers rounded.
export function textOf(value: unknown): string {
  if (typeof value === "string") return value;
  const text = JSON.stringify(value) ?? "";
  const isLarge = Number.isInteger(value) && !Number.isSafeInteger(value);
  const isRounded = isLarge && Math.abs(Number(value)) <= kMostWhole;
  return isRounded ? `about ${text} (rounded)` : text;
}

// As JSON has it: what is not seen is told, as it may be what two values differ in.
export const withUnseen = (text: string) =>
  text.replace(
    kUnseen,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
