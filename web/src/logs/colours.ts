// A terminal's 256 colours, made readable on either theme.
import type { Colour, Style } from "./ansi";

type Rgb = [number, number, number];

const kBase: Rgb[] = [
  [0, 0, 0],
  [205, 49, 49],
  [13, 188, 121],
  [229, 229, 16],
  [36, 114, 200],
  [188, 63, 188],
  [17, 168, 205],
  [229, 229, 229],
  [102, 102, 102],
  [241, 76, 76],
  [35, 209, 139],
  [245, 245, 67],
  [59, 142, 234],
  [214, 112, 214],
  [41, 184, 219],
  [255, 255, 255],
];

export function rgb(colour: Colour): Rgb {
  if (typeof colour === "string") {
    const part = (at: number) => parseInt(colour.slice(at, at + 2), 16);
    return [part(1), part(3), part(5)];
  }
  const base = kBase[colour];
  if (base) return base;
  if (colour >= 232) {
    const grey = 8 + 10 * (colour - 232);
    return [grey, grey, grey];
  }
  const level = (n: number) => (n === 0 ? 0 : 55 + 40 * n);
  const n = colour - 16;
  return [level(Math.floor(n / 36)), level(Math.floor(n / 6) % 6), level(n % 6)];
}

// Relative luminance and contrast as WCAG 2.2 defines them.
function luminance(colour: Rgb): number {
  const [r, g, b] = colour.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * (r ?? 0) + 0.7152 * (g ?? 0) + 0.0722 * (b ?? 0);
}
export function contrast(a: Rgb, b: Rgb): number {
  const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return ((light ?? 0) + 0.05) / ((dark ?? 0) + 0.05);
}

const kEnough = 4.6; // WCAG's 4.5, and what rounding takes
const kSteps = 20;

// The colour, or as little of white or black in it as makes it readable on the other.
export function readable(colour: Rgb, on: Rgb): Rgb {
  const white: Rgb = [255, 255, 255];
  const black: Rgb = [0, 0, 0];
  const to = contrast(white, on) > contrast(black, on) ? white : black;
  for (let step = 0; step < kSteps; ++step) {
    const share = step / kSteps;
    const mixed = colour.map((part, i) => Math.round(part + share * ((to[i] ?? 0) - part))) as Rgb;
    if (contrast(mixed, on) >= kEnough) return mixed;
  }
  return to;
}

export interface Theme {
  page: Rgb; // behind the log
  text: Rgb;
  muted: Rgb;
}
export interface Shown {
  color?: string;
  backgroundColor?: string;
}

const css = (colour: Rgb) => `rgb(${colour.join(", ")})`;

export function colours(style: Style, theme: Theme): Shown {
  let fg = style.fg == null ? null : rgb(style.fg);
  let bg = style.bg == null ? null : rgb(style.bg);
  if (style.inverse) [fg, bg] = [bg ?? theme.page, fg ?? theme.text];
  if (fg == null && bg == null) return style.dim ? { color: css(theme.muted) } : {};
  const color = css(readable(fg ?? theme.text, bg ?? theme.page));
  return bg == null ? { color } : { color, backgroundColor: css(bg) };
}
