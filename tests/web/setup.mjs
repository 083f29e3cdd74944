// What the page's tests share: a browser, a page that records what goes wrong, and its pixels.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromiumMissing, launch } from "../../web/browser.mjs";
import { Fixture, kTicket } from "./fixture.mjs";

const here = dirname(fileURLToPath(import.meta.url));
export const kOut = join(here, "out"); // screenshots of the last run, ignored by git
// Every theme and width; else half of them.
export const kAll = Number(process.env.REGATTA_REPETITIONS ?? 100) >= 100;
export const kPatience = 90_000; // ms; generous, for a busy machine

// A reason to skip, or null. REQUIRE=browser turns the skip into a failure.
export function missingBrowser() {
  const reason = chromiumMissing();
  if (reason && (process.env.REQUIRE ?? "").split(",").includes("browser")) {
    throw new Error(`REQUIRE=browser, but ${reason}`);
  }
  if (reason) console.error(`SKIPPED: ${reason}`);
  return reason;
}

export class Visitor {
  constructor(browser, page) {
    this.browser = browser;
    this.page = page;
    this.complaints = []; // console errors, exceptions, dialogs, requests to elsewhere
    page.setDefaultTimeout(kPatience);
    page.on("console", (message) => {
      if (message.type() === "error") this.complaints.push(message.text());
    });
    page.on("pageerror", (error) => this.complaints.push(String(error)));
    page.on("dialog", (dialog) => {
      this.complaints.push(`dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
  }
  // Runs a test's body; when it fails, says what the page had complained of and keeps a picture.
  static async explain(name, body) {
    Visitor.newest = null;
    try {
      await body();
    } catch (error) {
      const visitor = Visitor.newest;
      if (visitor && !visitor.page.isClosed()) {
        error.message += `\nthe page's complaints: ${JSON.stringify(visitor.complaints)}`;
        await visitor.keepPicture(`failed-${name.replace(/\W+/g, "-")}`).catch(() => undefined);
        await visitor.page.close();
      }
      throw error;
    }
  }
  // By a link with a ticket: the fixture's, where the address has none.
  static arrive(browser, url, options = {}) {
    const { href, hash } = new URL(url);
    const link = `${href.split("#")[0]}#ticket=${kTicket}${hash.slice(1)}`;
    return Visitor.arriveAt(browser, hash.startsWith("#ticket=") ? url : link, options);
  }
  static async arriveAt(browser, url, options = {}) {
    const page = await browser.newPage({ viewport: { width: 1200, height: 1000 }, ...options });
    const visitor = new Visitor(browser, page);
    Visitor.newest = visitor;
    const origin = new URL(url).origin;
    page.on("request", (request) => {
      if (new URL(request.url()).origin !== origin) visitor.complaints.push(request.url());
    });
    await page.goto(url);
    return visitor;
  }
  // The ticket of the link was exchanged: a reload before that has neither it nor a session.
  async isLetIn() {
    await this.page.waitForFunction(() => sessionStorage.getItem("regatta.session") != null);
  }
  async sees(text) {
    await this.page.getByText(text).first().waitFor();
  }
  async seesNoMore(text) {
    await this.page.getByText(text).first().waitFor({ state: "hidden" });
  }
  // Pixels of the n-th chart that have the colour of a custom property, and the columns they span.
  pixels(chart, colour) {
    return this.page.evaluate(
      ([index, name]) => {
        const canvas = document.querySelectorAll("figure.chart canvas")[index];
        const context = canvas.getContext("2d");
        context.save();
        const probe = document.createElement("canvas").getContext("2d");
        probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
        probe.fillRect(0, 0, 1, 1);
        const want = probe.getImageData(0, 0, 1, 1).data;
        context.restore();
        const { data, width } = context.getImageData(0, 0, canvas.width, canvas.height);
        const found = { count: 0, left: width, right: -1, width };
        for (let i = 0; i < data.length; i += 4) {
          const near = [0, 1, 2].every((part) => Math.abs(data[i + part] - want[part]) <= 6);
          if (!near || data[i + 3] < 250) continue;
          const column = (i / 4) % width;
          found.count += 1;
          found.left = Math.min(found.left, column);
          found.right = Math.max(found.right, column);
        }
        return found;
      },
      [chart, colour],
    );
  }
  async waitForPixels(chart, colour, least) {
    const end = Date.now() + kPatience;
    for (;;) {
      const found = await this.pixels(chart, colour).catch(() => ({ count: 0 }));
      if (found.count >= least) return found;
      assert.ok(Date.now() < end, `chart ${chart}: ${found.count} pixels of ${colour} < ${least}`);
      await this.page.waitForTimeout(100);
    }
  }
  async keepPicture(name) {
    mkdirSync(kOut, { recursive: true });
    await this.page.screenshot({ path: join(kOut, `${name}.png`), fullPage: true });
  }
  // Ends the visit; nothing may have gone wrong but what matches `allowed`.
  async leave(allowed = null) {
    // Answers that a test changes on their way may come when their page is gone.
    await this.page.unrouteAll({ behavior: "ignoreErrors" });
    await this.page.close();
    const bad = this.complaints.filter((text) => !allowed?.test(text));
    assert.deepEqual(bad, []);
  }
}

// Heap in bytes after a collection, and how many nodes and listeners a page has.
export async function sizesOf(page) {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.enable");
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  const { nodes, jsEventListeners } = await session.send("Memory.getDOMCounters");
  await session.detach();
  return { heap: usedSize, nodes, listeners: jsEventListeners };
}

// A test that has a fixture of its own, which is stopped whatever happens.
export function pageTestWith(options) {
  return (name, entries, body) =>
    test(name, options, async () => {
      const fixture = await new Fixture(entries()).start();
      try {
        await Visitor.explain(name, () => body(fixture));
      } finally {
        await fixture.stop();
      }
    });
}

// The browser of pageTests(), while the tests of the file run: node has a process for each file.
export let browser = null;

// Opens it for the tests of a file, and returns what makes each.
export function pageTests() {
  const skip = missingBrowser() ?? false;
  before(async () => {
    if (!skip) browser = await launch();
  });
  after(() => browser?.close());
  return pageTestWith({ skip });
}

export { launch };
