#!/usr/bin/env node
// What the page costs a browser (headless Chromium, one machine with the controller). Prints JSON.
//   REGATTA_BINARY=build/release/orchestrator/regatta node tests/bench/page.mjs [--runs 100000] [--minutes 5]
// first_paint: five first visits of the list of runs, with --runs runs in the store. interactions: the
// browser's own Event Timing of keys, clicks and letters in a list of over 5,000 runs, and how long after
// each the answer of the controller was shown. live: CPU time of the browser's processes for 20 charts of
// ten runs that train, and heap, nodes and listeners over --minutes.
import { execFileSync } from "node:child_process";
import { cpus } from "node:os";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { LiveRun } from "../web/live_run.mjs";
import { Seeded } from "../web/seeded.mjs";
import { Visitor, launch, sizesOf } from "../web/setup.mjs";

const { values } = parseArgs({
  options: { runs: { type: "string", default: "100000" }, minutes: { type: "string", default: "5" } },
});
const kRuns = Number(values.runs);
const kMinutes = Number(values.minutes);
const kOwner = "uid 1003"; // of a fourteenth of all runs
const kRow = "table.runs tbody tr[data-run]";
const median = (all) => [...all].sort((a, b) => a - b)[all.length >> 1];
const round = (value) => Number(value.toFixed(1));
const sleep = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

// Before anything of the page runs: when its first row was there, and how long its events took.
function watch() {
  window.measured = { row: null, events: [] };
  new MutationObserver((_, observer) => {
    if (!document.querySelector("table.runs tbody tr[data-run]")) return;
    requestAnimationFrame(() => (window.measured.row ??= performance.now()));
    observer.disconnect();
  }).observe(document, { childList: true, subtree: true });
  new PerformanceObserver((list) => {
    for (const { name, duration } of list.getEntries()) window.measured.events.push([name, duration]);
  }).observe({ type: "event", durationThreshold: 16, buffered: true });
}

async function visit(browser, seeded, place = "") {
  const page = await browser.newPage({ viewport: { width: 1440, height: 1000 } });
  await page.addInitScript(watch);
  await page.goto(seeded.link(place));
  await page.waitForFunction(() => window.measured.row != null);
  return page;
}

async function firstPaint(browser, seeded) {
  const [paint, row] = [[], []];
  for (let i = 0; i < 5; i += 1) {
    const page = await visit(browser, seeded);
    const first = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
    await page.waitForFunction(first);
    paint.push(round(await page.evaluate(first)));
    row.push(round(await page.evaluate(() => window.measured.row)));
    await page.close();
  }
  const longest_ms = Math.max(...row);
  return { first_contentful_paint_ms: paint, rows_shown_ms: row, longest_ms, to_reach_ms: 1000 };
}

async function interactions(browser, seeded) {
  const page = await visit(browser, seeded, `/?owner=${encodeURIComponent(kOwner)}`);
  const { total } = await seeded.ask(`runs?owner=${encodeURIComponent(kOwner)}&total=true&limit=1`);
  const first = () => page.locator(kRow).first().getAttribute("data-run");
  const shown = {};
  // Until the list begins with another run, in an answer to what is asked now.
  const asked = async (name, act) => {
    const before = await first();
    const begin = Date.now();
    await act();
    await page.waitForFunction(
      ([row, id]) =>
        ![id, undefined].includes(document.querySelector(row)?.dataset.run) &&
        !document.querySelector(".stale"),
      [kRow, before],
      { polling: "raf" },
    );
    shown[name] = Date.now() - begin;
    await sleep(0.2);
  };
  for (const key of "jjjjjjjjkkkkxjxjx") await page.keyboard.press(key);
  await page.keyboard.press("Escape");
  await asked("next_page", () => page.getByRole("button", { name: "Next" }).click());
  await asked("previous_page", () => page.getByRole("button", { name: "Previous" }).click());
  await asked("sort_by_name", () => page.getByRole("button", { name: "Run", exact: true }).first().click());
  await asked("sort_other_way", () => page.getByRole("button", { name: "Run", exact: true }).first().click());
  await page.keyboard.press("/");
  await asked("search", () => page.keyboard.type("run18"));
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox").waitFor();
  await page.keyboard.type("run2");
  await sleep(0.5);
  await page.keyboard.press("Escape");
  await page.locator(kRow).first().getByRole("link").first().click();
  await page.getByRole("navigation", { name: "Run details" }).waitFor();
  await page.keyboard.press("Escape");
  await page.locator(kRow).first().waitFor();
  await sleep(1);
  const events = await page.evaluate(() => window.measured.events);
  await page.close();
  const longest = events.reduce((most, one) => (one[1] > most[1] ? one : most), ["none", 0]);
  return {
    runs_in_the_filtered_set: total,
    events_over_16_ms: events.length,
    median_of_them_ms: median(events.map(([, duration]) => duration)) ?? 0,
    longest_ms: longest[1],
    longest_event: longest[0],
    to_reach_ms: 100,
    shown_after_ms: shown,
  };
}

const kSeries = "metric,loss,samples_per_second,tokens_per_second,goodput,mfu,utilisation,step_seconds," +
  "exposed_seconds,imbalance,learning_rate,noise_scale,efficiency,evaluation_loss";

// Seconds of CPU that the browser's processes of each type have used.
async function processorSeconds(session) {
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  const sum = {};
  for (const { type, cpuTime } of processInfo) sum[type] = (sum[type] ?? 0) + cpuTime;
  return sum;
}
async function sizes(page) {
  const { heap, ...counts } = await sizesOf(page);
  return { heap_megabytes: round(heap / 1e6), ...counts };
}

async function live(browser) {
  const runs = [];
  const prepare = (folder) => {
    for (let i = 0; i < 10; i += 1) {
      const id = `live-00000${i}`;
      const execution = `00000000000000a${i}`;
      runs.push(new LiveRun(folder, id, 200 * 0.8, { execution, steps: 100_000 }));
      runs[i].train(200);
    }
  };
  const seeded = await new Seeded({ runs: 10, prepare }).start();
  const growing = setInterval(() => {
    for (const run of runs) run.train(Math.floor((Date.now() / 1000 - run.begin) / 0.8));
  }, 500);
  try {
    const ids = runs.map(({ id }) => id);
    const places = [`/compare?runs=${ids.join(",")}&series=${kSeries}`, `/runs/${ids[0]}`, `/runs/${ids[1]}`];
    const pages = [];
    for (const place of places) {
      const options = { viewport: { width: 1440, height: 1000 } };
      const { page } = await Visitor.arrive(browser, seeded.link(place), options);
      await page.locator("figure.chart canvas").nth(2).waitFor();
      pages.push(page);
    }
    const count = () => Promise.all(pages.map((page) => page.locator("figure.chart canvas").count()));
    await sleep(20);
    const session = await browser.newBrowserCDPSession();
    const [before, begin] = [await processorSeconds(session), Date.now()];
    await sleep(60);
    const [after, seconds] = [await processorSeconds(session), (Date.now() - begin) / 1000];
    const cores = (type) => Number((((after[type] ?? 0) - (before[type] ?? 0)) / seconds).toFixed(3));
    const growth = [];
    for (let minute = 0; minute <= kMinutes; minute += 1) {
      if (minute > 0) await sleep(60);
      growth.push(await Promise.all(pages.map(sizes)));
    }
    return {
      charts: (await count()).reduce((sum, one) => sum + one, 0),
      runs: runs.length,
      steps_per_second: round(runs.length / 0.8),
      cores: { renderer: cores("renderer"), gpu: cores("GPU"), browser: cores("browser") },
      to_reach_cores: 0.15,
      growth: places.map((place, index) => ({
        page: place.split("?")[0],
        each_minute: growth.map((all) => all[index]),
      })),
    };
  } finally {
    clearInterval(growing);
    await seeded.stop();
  }
}

const result = { benchmark: "page", cores: cpus().length, runs: kRuns };
const fill = join(dirname(resolve(process.env.REGATTA_BINARY)), "..", "tests", "bench", "api_bench");
const prepare = (folder) =>
  void execFileSync(fill, ["--fill", join(folder, "data"), "--runs", String(kRuns)]);
const browser = await launch();
try {
  const seeded = await new Seeded({ runs: 0, prepare }).start();
  try {
    result.first_paint = await firstPaint(browser, seeded);
    result.interactions = await interactions(browser, seeded);
  } finally {
    await seeded.stop();
  }
  result.live = await live(browser);
} finally {
  await browser.close();
}
console.log(JSON.stringify(result, null, 2));
