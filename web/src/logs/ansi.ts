// Escape sequences of a terminal, as far as they colour text. Those that would move or hide it are
// dropped, as are characters that turn the direction of reading; a carriage return begins its line
// anew, as progress bars want it.
import { kUnseen } from "../base/format";

// A colour is one of a terminal's 256, or "#rrggbb".
export type Colour = number | string;
export interface Style {
  fg: Colour | null;
  bg: Colour | null;
  bold: boolean;
  dim: boolean;
  italic: boolean;
  underline: boolean;
  strike: boolean;
  inverse: boolean;
}
export interface Run {
  text: string;
  style: Style | null; // null: plain; equal styles are one object
  isNote?: boolean; // of the page, not of the log
}
// What one part of a log leaves to the next.
export interface Carry {
  style: Style | null;
  open: string; // of a line that has not ended, as it came
}
export const kNothing: Carry = { style: null, open: "" };

export const kMostLine = 16_384; // characters of a line that are shown
const kMostStyled = 4000; // runs of a part; behind them it is plain

const kPlain: Style = {
  fg: null,
  bg: null,
  bold: false,
  dim: false,
  italic: false,
  underline: false,
  strike: false,
  inverse: false,
};
const kPlainKey = JSON.stringify(kPlain);
const known = new Map<string, Style>(); // so that equal ones are one
const kMostKnown = 4096;

function same(style: Style): Style | null {
  const key = JSON.stringify(style);
  if (key === kPlainKey) return null;
  const found = known.get(key);
  if (found) return found;
  if (known.size >= kMostKnown) known.clear();
  known.set(key, style);
  return style;
}

const kSimple: Record<number, Partial<Style>> = {
  0: kPlain,
  1: { bold: true },
  2: { dim: true },
  3: { italic: true },
  4: { underline: true },
  7: { inverse: true },
  9: { strike: true },
  21: { underline: true },
  22: { bold: false, dim: false },
  23: { italic: false },
  24: { underline: false },
  27: { inverse: false },
  29: { strike: false },
  39: { fg: null },
  49: { bg: null },
};

const isByte = (value: number | undefined): value is number => value != null && value <= 255;

// 5;N or 2;R;G;B behind a 38 or 48, and how many numbers that were; with colons there may be one
// for the colour space.
function extended(numbers: number[], colons: boolean): [Colour | null, number] {
  if (numbers[0] === 5) return [isByte(numbers[1]) ? numbers[1] : null, 2];
  if (numbers[0] !== 2) return [null, Infinity]; // whatever comes, nobody knows what it means
  const from = colons && numbers.length > 4 ? 2 : 1;
  const parts = numbers.slice(from, from + 3);
  if (parts.length < 3 || !parts.every(isByte)) return [null, from + 3];
  return [`#${parts.map((part) => part.toString(16).padStart(2, "0")).join("")}`, from + 3];
}

// "Select graphic rendition" with these parameters, after a style.
export function select(style: Style | null, parameters: string): Style | null {
  const next = { ...(style ?? kPlain) };
  const words = parameters.split(";");
  for (let i = 0; i < words.length; ++i) {
    const parts = (words[i] ?? "").split(":").map(Number);
    const code = parts[0] ?? 0;
    if (Number.isNaN(code)) return style;
    if (code === 38 || code === 48) {
      const colons = parts.length > 1;
      const rest = colons ? parts.slice(1) : words.slice(i + 1, i + 5).map(Number);
      const [colour, used] = extended(rest, colons);
      if (colour != null) next[code === 38 ? "fg" : "bg"] = colour;
      if (!colons) i += used;
    } else if (code === 4 && parts[1] === 0) next.underline = false;
    else if (code >= 30 && code <= 37) next.fg = code - 30;
    else if (code >= 40 && code <= 47) next.bg = code - 40;
    else if (code >= 90 && code <= 97) next.fg = code - 90 + 8;
    else if (code >= 100 && code <= 107) next.bg = code - 100 + 8;
    else Object.assign(next, kSimple[code]);
  }
  return same(next);
}

const kTokens = new RegExp(
  [
    // Control sequence: parameters, and what it is.
    "(?:\\u001b\\[|\\u009b)([0-?]*)[ -/]*([@-~])",
    // Texts for the terminal, such as its title: they end with a bell or a terminator on the line.
    "(?:\\u001b[\\]PX^_]|[\\u0090\\u0098\\u009d-\\u009f])" +
      // None of these begins in another, or many that do not end would be read again for each.
      "[^\\u0007\\u001b\\u0080-\\u009f\\n\\r]*(?:\\u0007|\\u001b\\\\|\\u009c)",
    "(?:\\u001b\\[|\\u009b)[0-?]*[ -/]*$", // cut off: the rest has not come yet
    "\\u001b[ -/]*[0-~]?", // all other sequences
    "\\r|\\n",
    "[^\\u001b\\u0080-\\u009f\\r\\n]+",
    "[^]",
  ].join("|"),
  "gu",
);

class Lines {
  runs: Run[] = [];
  private line: Run[] = [];
  private shown = 0; // characters of the line
  private left = 0; // and those that are left out
  private returned = false;
  private styled = 0;

  text(text: string, style: Style | null) {
    if (text === "") return;
    if (this.returned) {
      this.line = [];
      this.shown = this.left = 0;
    }
    this.returned = false;
    let fits = text.slice(0, Math.max(0, kMostLine - this.shown));
    if (/[\ud800-\udbff]$/.test(fits)) fits = fits.slice(0, -1); // no half of a character
    this.left += text.length - fits.length;
    this.shown += fits.length;
    if (fits !== "") this.line.push({ text: fits, style });
  }
  carriageReturn() {
    this.returned = true;
  }
  end(newline: string) {
    for (const run of this.line) this.add(run.text, run.style);
    if (this.left > 0) {
      const text = ` … ${this.left.toLocaleString("en-US")} more characters of this line`;
      this.runs.push({ text, style: null, isNote: true });
    }
    if (newline !== "") this.add(newline, null);
    this.line = [];
    this.shown = this.left = 0;
    this.returned = false;
  }
  private add(text: string, style: Style | null) {
    if (style != null) this.styled += 1;
    const wanted = this.styled > kMostStyled ? null : style;
    const last = this.runs[this.runs.length - 1];
    if (last && last.style === wanted && !last.isNote) last.text += text;
    else this.runs.push({ text, style: wanted });
  }
}

// A part of a log behind others. A line that does not end in it is left to the next part, unless
// this is the last.
export function parse(text: string, before: Carry, isLast: boolean): { runs: Run[]; carry: Carry } {
  let raw = before.open + text;
  let open = "";
  if (!isLast) {
    const cut = raw.lastIndexOf("\n") + 1;
    open = raw.slice(cut);
    raw = raw.slice(0, cut);
  }
  let style = before.style;
  const lines = new Lines();
  for (const [token, parameters, kind] of raw.matchAll(kTokens)) {
    if (token === "\n") lines.end("\n");
    else if (token === "\r") lines.carriageReturn();
    else if (kind === "m") style = select(style, parameters ?? "");
    else if (kind == null && !/^[\u001b\u0080-\u009f]/.test(token)) {
      lines.text(token.replace(kUnseen, ""), style);
    }
  }
  lines.end("");
  return { runs: lines.runs, carry: { style, open } };
}

// Text alone, as it is shown.
export function plain(text: string): string {
  return parse(text, kNothing, true)
    .runs.map((run) => run.text)
    .join("");
}
