// A drawing as a PNG.

const kMargin = 14; // px
const kHead = 26; // px
const kFont = "ui-sans-serif, system-ui, sans-serif";

const colour = (name: string) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// A canvas of the page's surface with a title, and what `draw` puts below it.
function framed(
  title: string,
  size: { width: number; height: number; ratio: number },
  draw: (context: CanvasRenderingContext2D) => void,
): Promise<Blob | null> {
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil((size.width + 2 * kMargin) * size.ratio);
  canvas.height = Math.ceil((size.height + kHead + 2 * kMargin) * size.ratio);
  const context = canvas.getContext("2d");
  if (!context) return Promise.resolve(null);
  context.fillStyle = colour("surface");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.scale(size.ratio, size.ratio);
  context.fillStyle = colour("text");
  context.font = `600 14px ${kFont}`;
  context.textBaseline = "top";
  context.fillText(title, kMargin, kMargin, size.width);
  context.translate(kMargin, kMargin + kHead);
  draw(context);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

export function pictureOfCanvas(title: string, canvas: HTMLCanvasElement): Promise<Blob | null> {
  const ratio = canvas.width / Math.max(1, canvas.clientWidth);
  const size = { width: canvas.clientWidth, height: canvas.clientHeight, ratio };
  return framed(title, size, (context) =>
    context.drawImage(canvas, 0, 0, size.width, size.height),
  );
}

const kRatio = 2;

// The outline of a shape, in its own units.
function outlineOf(part: SVGGraphicsElement): Path2D {
  const way = new Path2D(part.getAttribute("d") ?? "");
  if (part instanceof SVGRectElement) {
    const { x, y, width, height } = part;
    way.rect(x.baseVal.value, y.baseVal.value, width.baseVal.value, height.baseVal.value);
  } else if (part instanceof SVGLineElement) {
    way.moveTo(part.x1.baseVal.value, part.y1.baseVal.value);
    way.lineTo(part.x2.baseVal.value, part.y2.baseVal.value);
  }
  return way;
}

function opacityOf(part: Element, place: Element): number {
  let opacity = 1;
  for (let at: Element | null = part; at && at !== place; at = at.parentElement) {
    opacity *= Number(getComputedStyle(at).opacity);
  }
  return opacity;
}

// A shape with its fill and its line, as the style sheet has them, within its drawing.
function drawShape(context: CanvasRenderingContext2D, part: SVGGraphicsElement, all: DOMRect) {
  const style = getComputedStyle(part);
  const matrix = part.getScreenCTM();
  const frame = part.ownerSVGElement;
  if (!matrix || !frame) return;
  if (getComputedStyle(frame).overflow !== "visible") {
    const { left, top, width, height } = frame.getBoundingClientRect();
    context.beginPath();
    context.rect(left - all.left, top - all.top, width, height);
    context.clip();
  }
  const { a, b, c, d, e, f } = matrix;
  context.transform(a, b, c, d, e - all.left, f - all.top);
  const way = outlineOf(part);
  const opacity = context.globalAlpha;
  if (style.fill !== "none") {
    context.globalAlpha = opacity * Number(style.fillOpacity);
    context.fillStyle = style.fill;
    context.fill(way);
  }
  if (style.stroke === "none") return;
  context.globalAlpha = opacity * Number(style.strokeOpacity);
  context.strokeStyle = style.stroke;
  context.lineWidth = parseFloat(style.strokeWidth);
  context.lineCap = style.strokeLinecap as CanvasLineCap;
  context.lineJoin = style.strokeLinejoin as CanvasLineJoin;
  context.setLineDash(style.strokeDasharray.match(/[\d.]+/g)?.map(Number) ?? []);
  context.stroke(way);
}

// A piece of text in one line, where it stands on the page.
function drawText(
  context: CanvasRenderingContext2D,
  { text, of, box, all }: { text: string; of: Element; box: DOMRect; all: DOMRect },
) {
  const style = getComputedStyle(of);
  context.fillStyle = of instanceof SVGElement ? style.fill : style.color;
  context.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  context.textBaseline = "alphabetic";
  const { fontBoundingBoxAscent: above, fontBoundingBoxDescent: below } = context.measureText(text);
  const baseline = box.top - all.top + (box.height - above - below) / 2 + above;
  context.fillText(text, box.left - all.left, baseline);
}

// Words outside of drawings in SVG, each with its box: the browser breaks their lines.
function wordsIn(node: Text): { text: string; box: DOMRect }[] {
  return [...node.data.matchAll(/\S+/g)].map(({ 0: text, index }) => {
    const range = document.createRange();
    range.setStart(node, index);
    range.setEnd(node, index + text.length);
    return { text, box: range.getBoundingClientRect() };
  });
}

// Shapes and texts of drawings in SVG, and the text between them. An image of them as a file is what
// the page's policy forbids, so that they are drawn once more.
export function pictureOfDrawing(title: string, place: Element): Promise<Blob | null> {
  const all = place.getBoundingClientRect();
  const size = { width: all.width, height: all.height, ratio: kRatio };
  return framed(title, size, (context) => {
    for (const part of place.querySelectorAll<SVGGraphicsElement>("rect, line, text, path")) {
      context.save();
      context.globalAlpha = opacityOf(part, place);
      if (part instanceof SVGTextElement) {
        const box = part.getBoundingClientRect();
        drawText(context, { text: part.textContent ?? "", of: part, box, all });
      } else {
        drawShape(context, part, all);
      }
      context.restore();
    }
    const texts = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const of = texts.currentNode.parentElement;
      if (!of || of instanceof SVGElement) continue;
      for (const word of wordsIn(texts.currentNode as Text)) drawText(context, { ...word, of, all });
    }
  });
}
