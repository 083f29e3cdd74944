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
const kAlign: Record<string, CanvasTextAlign> = { start: "left", middle: "center", end: "right" };

// Bars, lines and texts of drawings in SVG. An image of them as a file is what the page's policy
// forbids, so that they are drawn once more.
export function pictureOfDrawing(title: string, place: Element): Promise<Blob | null> {
  const all = place.getBoundingClientRect();
  const size = { width: all.width, height: all.height, ratio: kRatio };
  return framed(title, size, (context) => {
    for (const part of place.querySelectorAll<SVGGraphicsElement>("rect, line, text, path")) {
      const box = part.getBoundingClientRect();
      const style = getComputedStyle(part);
      const [x, y] = [box.left - all.left, box.top - all.top];
      context.globalAlpha = Number(style.opacity) * Number(style.fillOpacity || 1);
      if (part instanceof SVGRectElement) {
        context.fillStyle = style.fill;
        if (style.fill !== "none") context.fillRect(x, y, box.width, box.height);
      } else if (part instanceof SVGLineElement) {
        context.strokeStyle = style.stroke;
        context.beginPath();
        context.moveTo(x, y);
        context.lineTo(x + box.width, y + box.height);
        context.stroke();
      } else if (part instanceof SVGTextElement) {
        context.fillStyle = style.fill;
        context.font = `${style.fontWeight} ${style.fontSize} ${kFont}`;
        context.textAlign = kAlign[style.textAnchor] ?? "left";
        context.textBaseline = "middle";
        const at = { start: 0, middle: box.width / 2, end: box.width }[style.textAnchor] ?? 0;
        context.fillText(part.textContent ?? "", x + at, y + box.height / 2);
      } else {
        const matrix = (part as SVGGeometryElement).getScreenCTM();
        const way = new Path2D(part.getAttribute("d") ?? "");
        context.save();
        if (matrix) context.translate(matrix.e - all.left, matrix.f - all.top);
        context.fillStyle = style.fill;
        context.fill(way);
        context.restore();
      }
    }
  });
}
