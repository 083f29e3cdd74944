// node web/screenshot.mjs URL OUT.png [--width N] [--height N] [--wait-for TEXT] [--dark] [--full]
// Waits until TEXT is on the page (at most 30 s), then for the charts to settle.
import { parseArgs } from "node:util";
import { chromiumMissing, launch } from "./browser.mjs";

const usage =
  "usage: node web/screenshot.mjs URL OUT.png [--width N] [--height N] [--wait-for TEXT] " +
  "[--dark] [--full]";

function parse() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        width: { type: "string", default: "1200" },
        height: { type: "string", default: "1000" },
        "wait-for": { type: "string" },
        dark: { type: "boolean", default: false },
        full: { type: "boolean", default: false },
      },
    });
  } catch (error) {
    return { problem: error.message };
  }
}

async function main() {
  const { values, positionals, problem } = parse();
  const width = Number(values?.width);
  const height = Number(values?.height);
  const sizes = [width, height].every((size) => Number.isInteger(size) && size > 0 && size <= 8192);
  if (problem || positionals.length !== 2 || !sizes) {
    console.error(problem ?? usage);
    return 2;
  }
  const missing = chromiumMissing();
  if (missing) {
    console.error(`screenshot: ${missing}`);
    return 1;
  }
  const [url, out] = positionals;
  const browser = await launch();
  try {
    const page = await browser.newPage({
      viewport: { width, height },
      colorScheme: values.dark ? "dark" : "light",
    });
    await page.goto(url, { timeout: 15_000 });
    if (values["wait-for"]) {
      await page.getByText(values["wait-for"]).first().waitFor({ timeout: 30_000 });
    }
    await page.waitForTimeout(500);
    await page.screenshot({ path: out, fullPage: values.full });
    return 0;
  } catch (error) {
    console.error(`screenshot: ${url}: ${error.message.split("\n")[0]}`);
    return 1;
  } finally {
    await browser.close();
  }
}

process.exitCode = await main();
