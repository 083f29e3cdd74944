// Drawings in SVG as files: each PNG looks as its drawing does on the page, with lines, dashes and
// the words between.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { ranksRun } from "./fixture.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";

const pageTest = pageTests();

const kRatio = 2; // pixels of a picture per CSS pixel
const kMargin = 14;
const kHead = 26;
const kMostOff = 0.03; // words alone are that far off: a browser sets them between pixels

// Of the pixels that two PNGs draw on, which share differs by more than the smoothing of an edge. The
// second is a whole picture, with margin and title.
const kCompare = async ([shot, picture, left, top]) => {
  const far = 60; // of 255
  const pixels = async (png, x, y) => {
    const bytes = Uint8Array.from(atob(png), (letter) => letter.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const canvas = new OffscreenCanvas(image.width - 2 * x, image.height - y - x);
    const context = canvas.getContext("2d");
    context.drawImage(image, -x, -y);
    return context.getImageData(0, 0, canvas.width, canvas.height);
  };
  const [page, file] = [await pixels(shot, 0, 0), await pixels(picture, left, top)];
  const ground = file.data; // its first pixel
  const off = (a, i, b, k) =>
    Math.max(...[0, 1, 2].map((part) => Math.abs((a[i + part] ?? 0) - (b[k + part] ?? 0))));
  let [drawn, different] = [0, 0];
  for (let y = 0; y < Math.min(page.height, file.height); y += 1) {
    for (let x = 0; x < Math.min(page.width, file.width); x += 1) {
      const [i, k] = [4 * (y * page.width + x), 4 * (y * file.width + x)];
      if (off(page.data, i, ground, 0) > 4 || off(file.data, k, ground, 0) > 4) drawn += 1;
      if (off(page.data, i, file.data, k) > far) different += 1;
    }
  }
  return { drawn, share: different / drawn };
};

async function compared(page, place, options) {
  // On the ground that pictures have, and on whole pixels, which a screenshot begins at.
  await place.evaluate((element) => {
    const width = `${element.getBoundingClientRect().width}px`;
    const ground = { background: "var(--surface)", position: "fixed", zIndex: 9 };
    Object.assign(element.style, { ...ground, inset: "20px auto auto 20px", width });
  });
  const shot = await place.screenshot();
  const save = options.getByRole("button", { name: "Save as PNG", includeHidden: true });
  const press = save.evaluate((button) => button.click()); // the drawing may lie on it
  const [file] = await Promise.all([page.waitForEvent("download"), press]);
  await place.evaluate((element) => element.removeAttribute("style"));
  const [top, left] = [kRatio * (kMargin + kHead), kRatio * kMargin];
  const pngs = [shot, readFileSync(await file.path())].map((png) => png.toString("base64"));
  return page.evaluate(kCompare, [...pngs, left, top]);
}

for (const [width, colorScheme] of [
  [1200, "light"],
  [390, "dark"],
]) {
  pageTest(
    `pictures of drawings look as the drawings do, ${colorScheme} at ${width} px`,
    () => [ranksRun()],
    async (fixture) => {
      const [{ run, metrics }] = fixture.entries;
      metrics.rank_shares = {
        step: 601,
        tokens: [4000, 4010, 3990, 4000, 4000, 4000, 4040, null],
        compute_seconds: [0.1, 0.1, 0.1, 0.1, 0.1, 0.15, 0.1, 0.1],
      };
      const link = `${fixture.url}#/runs/${run.id}/plan`;
      const viewport = { width, height: 900 };
      const options = { viewport, colorScheme, deviceScaleFactor: kRatio };
      const visitor = await Visitor.arrive(browser, link, options);
      const { page } = visitor;
      const look = async (title, selector) => {
        const place = page.locator(selector).last();
        await place.waitFor();
        const menu = page.locator("details.menu").filter({ hasText: `Options: ${title}` }).last();
        const { drawn, share } = await compared(page, place, menu);
        assert.ok(drawn > 5000 && share < kMostOff, `${title}: ${share} of ${drawn} pixels`);
      };
      await look("Algorithm and protocol by size", ".ways > div:has(text.size)");
      await look("Predicted against measured", "div:has(> svg.against)");
      await look("Ranks in step", ".rank-strip");
      await look("Reductions", ".timeline");
      await page.evaluate((id) => (location.hash = `#/runs/${id}`), run.id);
      await look("Timeline of attempts", ".strip .timeline");
      await visitor.leave();
    },
  );
}
