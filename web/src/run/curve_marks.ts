// What is drawn on the accuracy chart beside its curve: levels, the forecast, the crossing,
// checkpoints.
import type { CheckpointRow } from "../base/api";
import * as show from "../base/format";
import type { Pen } from "../parts/chart";
import type { By } from "./curve_rows";
import { placeOf } from "./curve_rows";
import { removedNames } from "./history";
import type { Box } from "./labels";
import { freePlace } from "./labels";

// Labels are drawn last, one after the other, each where the ones before have left room.
export class Labels {
  private readonly taken: Box[] = [];
  constructor(private readonly pen: Pen) {}

  put(text: string, x: number, bottom: number, colour: string, align: "left" | "center" | "right") {
    const { context, box, ratio } = this.pen;
    context.save();
    context.font = this.pen.font(11, 500);
    const width = context.measureText(text).width;
    const height = 15 * ratio;
    const before = { left: 0, center: width / 2, right: width }[align];
    const left = Math.max(box.left, Math.min(x - before, box.left + box.width - width));
    const place = freePlace({ left, top: bottom - height, width, height }, this.taken, box);
    this.taken.push(place);
    context.textAlign = "left";
    context.textBaseline = "bottom";
    context.lineJoin = "round";
    context.strokeStyle = this.pen.colour("surface");
    context.lineWidth = 4 * ratio;
    const y = place.top + place.height;
    context.strokeText(text, place.left, y);
    context.fillStyle = this.pen.colour(colour);
    context.fillText(text, place.left, y);
    context.restore();
  }
}

function dashed(pen: Pen, colour: string, pattern: number[], width: number, draw: () => void) {
  const { context, ratio } = pen;
  context.save();
  context.beginPath();
  context.rect(pen.box.left, pen.box.top, pen.box.width, pen.box.height);
  context.clip();
  context.strokeStyle = pen.colour(colour);
  context.lineWidth = width * ratio;
  context.setLineDash(pattern.map((part) => part * ratio));
  context.beginPath();
  draw();
  context.stroke();
  context.restore();
}

export function dot(pen: Pen, x: number, y: number, colour: string, filled: boolean) {
  const { context, ratio } = pen;
  context.save();
  context.beginPath();
  context.arc(x, y, 4.5 * ratio, 0, 2 * Math.PI);
  context.fillStyle = pen.colour(filled ? colour : "surface");
  context.fill();
  context.strokeStyle = pen.colour(colour);
  context.lineWidth = 2 * ratio;
  context.stroke();
  context.restore();
}

// The curve leaves the baseline early and meets the target late, so each label stands where the
// curve is not: the baseline's on the right, the target's on the left.
export function level(
  pen: Pen,
  labels: Labels,
  at: { value: number; text: string; colour: string; pattern: number[]; side: "left" | "right" },
) {
  // Whole pixels, so that the line is crisp.
  const width = Math.round((at.pattern.length > 0 ? 1 : 1.5) * pen.ratio);
  const y = Math.round(pen.y(at.value)) + (width % 2) / 2;
  const { left, width: whole } = pen.box;
  dashed(pen, at.colour, at.pattern, width / pen.ratio, () => {
    pen.context.moveTo(left, y);
    pen.context.lineTo(left + whole, y);
  });
  const inset = 8 * pen.ratio;
  const x = at.side === "left" ? left + inset : left + whole - inset;
  labels.put(at.text, x, y - 3 * pen.ratio, at.colour, at.side);
}

// A fan from the newest evaluation to where the target is expected to be met.
export function forecast(
  pen: Pen,
  labels: Labels,
  from: [number, number],
  target: number,
  at: { seconds: number; low: number; high: number },
) {
  const { context } = pen;
  const [x, y] = [pen.x(from[0]), pen.y(from[1])];
  const height = pen.y(target);
  context.save();
  context.beginPath();
  context.rect(pen.box.left, pen.box.top, pen.box.width, pen.box.height);
  context.clip();
  context.fillStyle = pen.colour("accent");
  context.globalAlpha = 0.12;
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(pen.x(at.low), height);
  context.lineTo(pen.x(at.high), height);
  context.closePath();
  context.fill();
  context.globalAlpha = 0.35; // the interval itself, on the target line
  const [low, high] = [pen.x(at.low), pen.x(at.high)];
  context.fillRect(low, height - 2 * pen.ratio, high - low, 4 * pen.ratio);
  context.restore();
  dashed(pen, "accent", [5, 4], 1.75, () => {
    context.moveTo(x, y);
    context.lineTo(pen.x(at.seconds), height);
  });
  const meets = pen.x(at.seconds);
  if (meets > pen.box.left + pen.box.width || meets < pen.box.left) return;
  dot(pen, meets, height, "accent", false);
  labels.put(`≈ ${show.clock(at.seconds)}`, meets, height - 8 * pen.ratio, "accent", "center");
}

// Where the target was reached.
export function crossing(pen: Pen, labels: Labels, place: number, text: string) {
  const { context, box, ratio } = pen;
  const x = Math.round(pen.x(place)) + 0.5;
  if (x < box.left || x > box.left + box.width) return;
  dashed(pen, "good", [2, 3], 1, () => {
    context.moveTo(x, box.top);
    context.lineTo(x, box.top + box.height);
  });
  const near = x > box.left + box.width - 130 * ratio;
  const side = near ? -8 : 8;
  const bottom = box.top + box.height - 14 * ratio;
  labels.put(`reached at ${text}`, x + side * ratio, bottom, "good", near ? "right" : "left");
}

// A small one that stands on the axis, where that has the place.
export function diamond(pen: Pen, place: number, colour: string, opacity = 1) {
  const { context, box, ratio } = pen;
  const [x, bottom] = [pen.x(place), box.top + box.height];
  if (x < box.left || x > box.left + box.width) return;
  context.save();
  context.fillStyle = pen.colour(colour);
  context.globalAlpha = opacity;
  context.beginPath();
  context.moveTo(x, bottom - 8 * ratio);
  context.lineTo(x + 4 * ratio, bottom - 4 * ratio);
  context.lineTo(x, bottom);
  context.lineTo(x - 4 * ratio, bottom - 4 * ratio);
  context.closePath();
  context.fill();
  context.restore();
}

// Checkpoints, faint once they were removed.
export function checkpointMarks(pen: Pen, by: By, rows: CheckpointRow[]) {
  const removed = removedNames(rows);
  for (const row of rows) {
    const [, , name, status] = row;
    if (status !== "written" && status !== "failed") continue;
    const opacity = status === "written" && removed.has(name) ? 0.35 : 1;
    diamond(pen, placeOf(by, row), status === "failed" ? "bad" : "muted", opacity);
  }
}
