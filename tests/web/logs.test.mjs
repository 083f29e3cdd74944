// Logs over the real controller: which log, its end, its colours, search on the server, hostile text.
import assert from "node:assert/strict";
import { appendFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { after, before, test as plainTest } from "node:test";
import { Seeded, missingController, seededTest } from "./seeded.mjs";
import { Visitor, launch } from "./setup.mjs";
import { sourcesOf } from "./sources.mjs";

const { ansi, colours, shown, groupsOf, matchAt, nextMatch } = await sourcesOf(`export * as ansi from "./src/logs/ansi"; export * as colours from "./src/logs/colours";
      export * as shown from "./src/logs/log_window"; export { groupsOf } from "./src/logs/log_files";
      export { matchAt, nextMatch } from "./src/logs/found";`);

const e = "\u001b[";
const kPlainRows = [
  ["colours go", `${e}1;31mbad${e}0m`, "bad"],
  ["movement and erasure go", `a${e}2J${e}Hb${e}Kc${e}5Ad`, "abcd"],
  ["concealed text is shown", `${e}8mhidden${e}28m`, "hidden"],
  ["titles and links go", `\u001b]0;title\u0007x\u001b]8;;http://a\u001b\\link\u001b]8;;\u001b\\`, "xlink"],
  ["a title that does not end hides nothing", "a\u001b]0;rest\nnext", "a0;rest\nnext"],
  ["eight-bit sequences go", "a\u009b31mb\u009dtitle\u009cc", "abc"],
  ["other sequences go", "a\u001b(Bb\u001bcc\u001b=d", "abcd"],
  ["a sequence that was cut off goes", `a${e}31`, "a"],
  ["NUL, bell, backspace, vertical tab", "a\u0000b\u0007c\bd\u000be\tf", "abcde\tf"],
  ["directions do not turn", "a\u202eb\u202c\u2066c\u2069\u200fd", "abcd"],
  ["a progress bar is its last state", "x\n 0%\r 50%\r100%\ny", "x\n100%\ny"],
  ["a line that ends with a return stays", "50%\r", "50%"],
  ["Windows' lines", "a\r\nb\r\n", "a\nb\n"],
  ["markup is text", "<b>&amp;</b>", "<b>&amp;</b>"],
  ["a character of two halves", "😀", "😀"],
];
for (const [name, text, expected] of kPlainRows) {
  plainTest(`log text: ${name}`, () => assert.equal(ansi.plain(text), expected));
}

plainTest("colours of 16, 256 and 16 million, and what takes them back", () => {
  const style = (text) => ansi.select(null, text);
  assert.equal(style("31").fg, 1);
  assert.equal(style("97").fg, 15);
  assert.equal(style("44").bg, 4);
  assert.equal(style("103").bg, 11);
  assert.equal(style("38;5;208").fg, 208);
  assert.equal(style("48:5:22").bg, 22);
  assert.equal(style("38;2;1;2;255;1").fg, "#0102ff");
  assert.equal(style("38;2;1;2;255;1").bold, true);
  assert.equal(style("38:2::1:2:3").fg, "#010203");
  assert.equal(style("38;5;300"), null);
  assert.equal(style("38;2;1;2"), null);
  assert.equal(ansi.select(style("1;31"), ""), null);
  assert.deepEqual(ansi.select(style("1;31"), "39"), style("1"));
  assert.equal(ansi.select(style("31"), "?25"), style("31"));
});

plainTest("parts of a log are drawn as the whole would be", () => {
  const whole = `a${e}32mgreen\nstill ${e}1mbold\rover${e}0m\n0%\r5`;
  const all = ansi.parse(whole, ansi.kNothing, true).runs;
  for (let cut = 0; cut <= whole.length; ++cut) {
    const first = ansi.parse(whole.slice(0, cut), ansi.kNothing, false);
    const second = ansi.parse(whole.slice(cut), first.carry, true);
    const joined = [...first.runs, ...second.runs].map((run) => [run.text, run.style?.fg, run.style?.bold]);
    const letters = (rows) => rows.flatMap(([text, ...style]) => [...text].map((one) => [one, ...style]));
    assert.deepEqual(
      letters(joined),
      letters(all.map((run) => [run.text, run.style?.fg, run.style?.bold])),
      `cut at ${cut}`,
    );
  }
});

plainTest("a long line is cut, and how much is left out is said", () => {
  const { runs } = ansi.parse(`${"x".repeat(1_000_000)}\nnext`, ansi.kNothing, true);
  assert.equal(runs[0].text, "x".repeat(ansi.kMostLine));
  assert.equal(runs[1].text, ` … ${(1_000_000 - ansi.kMostLine).toLocaleString("en-US")} more characters of this line`);
  assert.equal(runs[2].text, "\nnext");
});

plainTest("any line is read in time that grows with the line alone", () => {
  const long = 1_000_000; // characters; quadratic would be minutes
  const parts = ["\u009d", "\u0090x", "\u001b]", "\u001b[0", "\u009b0 ", "\u001b(", "\r", "\u202e", `${e}1m`];
  for (const part of parts) {
    const begin = performance.now();
    ansi.parse(part.repeat(long / part.length), ansi.kNothing, true);
    const seconds = (performance.now() - begin) / 1000;
    assert.ok(seconds < 10, `${JSON.stringify(part)}: ${seconds} s`);
  }
  for (const colours of ["38;", "38;5;1;", "48;2;1;2;3;"]) {
    const begin = performance.now();
    ansi.parse(`${e}${colours.repeat(long / colours.length)}0mx`, ansi.kNothing, true);
    const seconds = (performance.now() - begin) / 1000;
    assert.ok(seconds < 10, `${colours}: ${seconds} s`);
  }
});

plainTest("matches are found from any place, also one that is no match's", () => {
  const line = (offset, match = true) => ({ line: offset, offset, match, text: "" });
  const lines = [line(10), line(20), line(30, false), line(40)];
  const found = { lines, matches: lines.filter((one) => one.match) };
  for (const [at, current, next, before] of [
    [null, -1, 10, undefined],
    [10, 0, 20, undefined],
    [20, 1, 40, 10],
    [30, 1, 40, 20], // a line around the match before it
    [35, -1, 40, 20],
    [40, 2, undefined, 20],
    [5, -1, 10, undefined],
  ]) {
    assert.equal(matchAt(found, at), current, `${at}`);
    assert.equal(nextMatch(found, at, 1)?.offset, next, `behind ${at}`);
    assert.equal(nextMatch(found, at, -1)?.offset, before, `before ${at}`);
  }
});

plainTest("every colour is readable on every other, and in both themes", () => {
  const themes = [
    { page: [241, 243, 246], text: [22, 32, 44], muted: [91, 103, 118] },
    { page: [16, 21, 27], text: [228, 233, 239], muted: [151, 163, 177] },
  ];
  assert.ok(Math.abs(colours.contrast([255, 255, 255], [0, 0, 0]) - 21) < 1e-9);
  assert.ok(Math.abs(colours.contrast([118, 118, 118], [255, 255, 255]) - 4.54) < 0.01);
  const parts = (text) => text.match(/\d+/g).map(Number);
  for (const theme of themes) {
    for (let fg = -1; fg < 256; ++fg) {
      for (let bg = -1; bg < 256; bg += 5) {
        const style = { ...ansi.select(null, "1"), fg: fg < 0 ? null : fg, bg: bg < 0 ? null : bg };
        const { color, backgroundColor } = colours.colours(style, theme);
        const on = backgroundColor ? parts(backgroundColor) : theme.page;
        const ratio = colours.contrast(color ? parts(color) : theme.text, on);
        assert.ok(ratio >= 4.5, `${fg} on ${bg}: ${ratio}`);
      }
    }
  }
});

plainTest("the window holds half a megabyte, and forgets on the far side", () => {
  const part = (offset, length, size) => ({ text: "x".repeat(length), offset, next: offset + length, size, file: "f" });
  let now = shown.open([part(0, 200_000, 200_000)], 0, null);
  for (let offset = 200_000; offset < 2_000_000; offset += 100_000) {
    now = shown.append(now, part(offset, 100_000, offset + 100_000));
    assert.ok(shown.end(now) - shown.begin(now) <= shown.kMostShown);
  }
  assert.equal(shown.end(now), 2_000_000);
  for (const [index, piece] of now.pieces.entries()) {
    if (index > 0) assert.equal(piece.offset, now.pieces[index - 1].next);
  }
  const first = shown.begin(now);
  now = shown.prepend(now, part(first - 128_000, 128_000, 2_000_000));
  assert.equal(shown.begin(now), first - 128_000);
  assert.ok(shown.end(now) < 2_000_000);
  assert.ok(shown.end(now) - shown.begin(now) <= shown.kMostShown);
  assert.ok(shown.isOther(now, part(0, 10, 10)), "the file was cut");
  assert.ok(shown.isOther(now, { ...part(0, 10, 3_000_000), file: "g" }));
});

plainTest("logs are listed by attempt, the newest first", () => {
  const file = (fields) => ({ launch: null, attempt: null, job: null, restart: null, rank: null, bytes: 10, ...fields });
  const groups = groupsOf([
    file({ name: "launches/1.log", kind: "process", launch: 1, attempt: 1 }),
    file({ name: "attempts/1-a/logs/rank-3.log", kind: "attempt", attempt: 1, rank: 3 }),
    file({ name: "launches/2.ranks.log", kind: "ranks", launch: 2, job: "12", restart: 1 }),
  ]);
  assert.deepEqual(groups.map(({ name }) => name), ["Launch 2", "Attempt 1"]);
  assert.equal(groups[0].files[0].title, "all ranks, job 12, restart 1 (10\u202fbytes)");
  assert.equal(groups[1].files[1].title, "rank 3 (10\u202fbytes)");
});

const skip = missingController();
const test = seededTest(skip);
const kErrors = ["regatta-train error: loss is not finite at step 2900", "FATAL: rank 3 is gone"];
// 400 kB of steps, an error in the middle, what is hostile, a line of a megabyte, an error at the end.
function longLog() {
  const lines = [];
  for (let step = 1; step <= 6000; ++step) {
    lines.push(`2026-11-29T10:00:00 regatta-train info step ${step} loss ${(10 - step / 1000).toFixed(3)}`);
    if (step === 2900) lines.push(kErrors[0]);
  }
  lines.push(`${e}31mred${e}0m ${e}1;38;5;208morange${e}0m ${e}30;40mblack on black${e}0m ${e}8mconcealed${e}0m`);
  lines.push(`<script>window.stolen=1</script><img src=x onerror="window.stolen=1">`);
  lines.push(`NUL[\u0000] RTL[\u202egnp.exe] erased[${e}2J${e}H] title[\u001b]0;stolen\u0007]`);
  lines.push(" 0%|   |\r 50%|## |\r100%|###|");
  lines.push("x".repeat(1_000_000));
  lines.push(kErrors[1]);
  for (let line = 1; line <= 100; ++line) lines.push(`the end, line ${line}`);
  return `${lines.join("\n")}\n`;
}
const kLog = longLog();
let seeded, browser, run, path, small;
before(async () => {
  if (skip) return;
  const prepare = (folder) => {
    const runs = join(folder, "runs");
    run = readdirSync(runs).sort().find((name) => name.startsWith("wiki-base"));
    path = join(runs, run, "launches", "1.log");
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const newest = readdirSync(dirname(path)).filter((name) => name.endsWith(".log")).sort().pop();
    path = join(runs, run, "launches", newest);
    writeFileSync(path, kLog);
    const attempt = readdirSync(join(runs, run, "attempts")).sort().pop();
    small = `attempts/${attempt}/logs/rank-0.log`;
  };
  seeded = await new Seeded({ runs: 3, prepare }).start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await seeded?.stop();
});
const arrive = (query = "", options = {}) =>
  Visitor.arrive(browser, seeded.link(`/runs/${run}/log${query}`), options);
const log = (page) => page.locator("pre.log");
const queryOf = (page) => new URLSearchParams(new URL(page.url()).hash.split("?")[1]);
const markIsSeen = (page) =>
  page.waitForFunction(() => {
    const mark = document.querySelector("pre.log mark")?.getBoundingClientRect();
    const box = document.querySelector("pre.log")?.getBoundingClientRect();
    return mark && box && mark.top >= box.top && mark.top < box.bottom;
  });

test("the end is shown and followed, pause and all; what is left out is said", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await log(page).getByText("the end, line 100").waitFor();
  const atEnd = () =>
    page.evaluate(() => {
      const box = document.querySelector("pre.log");
      return box.scrollHeight - box.scrollTop - box.clientHeight < 24;
    });
  assert.ok(await atEnd());
  const size = Buffer.byteLength(kLog);
  const text = await page.locator(".log-extent span").first().innerText();
  const [, first, last, all] = /Bytes ([\d,]+) to ([\d,]+) of ([\d,]+);/.exec(text);
  const number = (word) => Number(word.replaceAll(",", ""));
  assert.equal(number(all), size);
  assert.equal(number(last), size);
  assert.ok(number(last) - number(first) <= 512 * 1024);
  const left = size - (number(last) - number(first));
  assert.ok(text.includes(`; ${(left / 1e6).toFixed(2)}\u202fMB are left out here.`), text);
  appendFileSync(path, "appended while followed\n");
  await log(page).getByText("appended while followed").waitFor();
  assert.ok(await atEnd());
  await page.keyboard.press("f");
  await page.getByRole("button", { name: "Follow f", exact: true }).waitFor();
  appendFileSync(path, "appended while paused\n");
  await page.waitForTimeout(6500); // longer than between two questions
  assert.equal(await log(page).getByText("appended while paused").count(), 0);
  await page.keyboard.press("f");
  await log(page).getByText("appended while paused").waitFor();
  await page.getByRole("button", { name: "Show what came before" }).click();
  await page.waitForFunction((old) => !document.querySelector(".log-extent").textContent.includes(old), first);
  await visitor.leave();
});

test("a log is chosen by attempt and rank, and the address keeps it", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await log(page).waitFor();
  const { files } = await seeded.ask(`runs/${run}/logs/files`);
  await page.getByRole("option", { name: /rank 0/ }).first().waitFor({ state: "attached" });
  const values = await page.locator(".log-choice option").evaluateAll((all) => all.map((one) => one.value));
  assert.deepEqual(values.slice().sort(), ["", ...files.map(({ name }) => name)].sort());
  await page.locator(".log-choice select").selectOption(small);
  const whole = readFileSync(join(dirname(dirname(path)), small), "utf8");
  await page.waitForFunction((text) => document.querySelector("pre.log")?.textContent === text, whole);
  assert.equal(queryOf(page).get("file"), small);
  await visitor.sees("All of it:");
  await page.reload();
  await page.waitForFunction((text) => document.querySelector("pre.log")?.textContent === text, whole);
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Download the log" }).click(),
  ]);
  assert.equal(readFileSync(await file.path(), "utf8"), whole);
  await visitor.leave();
});

test("by keys: a search on the server, its hits, the next page, and back to the end", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await log(page).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("step \\d+0 loss");
  await page.keyboard.press("Enter");
  const status = page.locator(".hits-head");
  await status.getByText(/^1 of 100 or more matching lines/).waitFor();
  const lines = kLog.split("\n");
  const expected = lines.flatMap((line, index) => (/step \d+0 loss/.test(line) ? [index + 1] : []));
  const numbers = () =>
    page.locator(".hits li.match button").evaluateAll((all) =>
      all.map((one) => Number(one.textContent.replaceAll(",", ""))),
    );
  assert.deepEqual(await numbers(), expected.slice(0, 100));
  await markIsSeen(page);
  assert.equal(await page.locator("pre.log mark").innerText(), lines[expected[0] - 1]);
  await page.keyboard.press("Escape");
  await page.keyboard.press("n");
  await status.getByText(/^2 of/).waitFor();
  const text = async (want) => {
    await page.waitForFunction((line) => document.querySelector("pre.log mark")?.textContent === line, want);
    await markIsSeen(page);
  };
  await text(lines[expected[1] - 1]);
  await page.keyboard.press("Shift+N");
  await text(lines[expected[0] - 1]);
  await page.getByRole("button", { name: `Go to line ${expected[99]}`, exact: true }).click();
  await text(lines[expected[99] - 1]);
  await page.keyboard.press("n");
  await status.getByText(/^101 of 200 or more/).waitFor();
  await text(lines[expected[100] - 1]);
  assert.deepEqual(await numbers(), expected.slice(0, 200));
  const offset = Buffer.byteLength(lines.slice(0, expected[100] - 1).join("\n")) + 1;
  assert.equal(Number(queryOf(page).get("at")), offset);
  await page.keyboard.press("f");
  await log(page).getByText("the end, line 100").waitFor();
  await visitor.leave();
});

test("a link to a match of a search opens there, and goes on from there", async () => {
  const lines = kLog.split("\n");
  const rows = lines.flatMap((line, index) => (/step \d+0 loss/.test(line) ? [index] : []));
  const at = (row) => Buffer.byteLength(lines.slice(0, rows[row]).join("\n")) + 1;
  const visitor = await arrive(`?${new URLSearchParams({ grep: "step \\d+0 loss", at: at(56) })}`);
  const { page } = visitor;
  const status = page.locator(".hits-head");
  await status.getByText(/^57 of 100 or more matching lines/).waitFor();
  const shows = async (row) => {
    const isMarked = (line) => document.querySelector("pre.log mark")?.textContent === line;
    await page.waitForFunction(isMarked, lines[rows[row]]);
    assert.equal(Number(queryOf(page).get("at")), at(row));
  };
  await shows(56);
  await page.keyboard.press("n");
  await status.getByText(/^58 of/).waitFor();
  await shows(57);
  assert.equal(queryOf(page).get("of"), `launches/${basename(path)}`);
  await page.reload();
  await status.getByText(/^58 of/).waitFor();
  await shows(57);
  // Followed and searched on: from where one was.
  await page.keyboard.press("f");
  await log(page).getByText("the end, line 100").waitFor();
  assert.equal(queryOf(page).get("of"), null);
  await page.keyboard.press("n");
  await shows(58);
  await visitor.leave();
});

test("another log becomes the newest: what is shown and found stays of its own", async () => {
  const lines = kLog.split("\n");
  const at = Buffer.byteLength(lines.slice(0, 5000).join("\n")) + 1;
  const visitor = await arrive(`?${new URLSearchParams({ at, grep: "step 30\\d loss" })}`);
  const { page } = visitor;
  const status = page.locator(".hits-head");
  await status.getByText(/^10 matching lines; all of it searched at \d\d:\d\d:\d\d$/).waitFor();
  await markIsSeen(page);
  // From now on the newest is the one that `small` names.
  await page.route(/\/logs(\/search)?\?/, (route) => {
    const url = new URL(route.request().url());
    if (!url.searchParams.has("file")) url.searchParams.set("file", small);
    return route.continue({ url: url.href });
  });
  const isWhole = async () => {
    const text = (await log(page).textContent()).replace(/^… /, "");
    assert.ok(kLog.includes(text.slice(0, text.indexOf("red"))), text.slice(0, 500));
    return text;
  };
  await isWhole();
  assert.equal(await log(page).getByText("step 2000 loss").count(), 0);
  await page.getByRole("button", { name: "Show what came before" }).click();
  await log(page).getByText("step 2000 loss").first().waitFor();
  assert.ok((await isWhole()).includes(lines[5000]));
  const end = await page.locator(".log-extent span").first().innerText();
  await page.getByRole("button", { name: "Show what comes after" }).click();
  await page.waitForFunction((old) => document.querySelector(".log-extent span").innerText !== old, end);
  await isWhole();
  // Followed again it is the newest; what was found stays of the other, and leads there.
  await page.keyboard.press("f");
  await page.waitForFunction(
    (whole) => document.querySelector("pre.log")?.textContent === whole,
    readFileSync(join(dirname(dirname(path)), small), "utf8"),
  );
  const other = `launches/${basename(path)}`;
  await status.getByText(`matching lines; in ${other}, all of it searched`).waitFor();
  const line = kLog.split("\n").findIndex((one) => /step 305 loss/.test(one));
  await page.getByRole("button", { name: `Go to line ${line + 1}`, exact: true }).click();
  await log(page).locator("mark", { hasText: "step 305 loss" }).waitFor();
  assert.equal(queryOf(page).get("of"), other);
  await visitor.leave();
});

test("a log that grows while it stands still is told as that, and its rest is one press away", async () => {
  const visitor = await arrive(`?file=${small}`);
  const { page } = visitor;
  const file = join(dirname(dirname(path)), small);
  await visitor.sees("All of it:");
  await page.keyboard.press("f");
  await page.getByRole("button", { name: "Follow f", exact: true }).waitFor();
  appendFileSync(file, "grown while paused\n");
  const size = readFileSync(file).length;
  await page.getByText(`of ${size.toLocaleString("en-US")}; 19\u202fbytes are left out here.`).waitFor();
  assert.equal(await log(page).getByText("grown while paused").count(), 0);
  const rest = page.getByRole("button", { name: "Show what comes after" });
  await rest.focus();
  await page.keyboard.press("Enter");
  await log(page).getByText("grown while paused").waitFor();
  await visitor.sees("All of it:");
  await rest.waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "PRE");
  await visitor.leave();
});

test("a byte behind the end is told as that; the log is not empty", async () => {
  const visitor = await arrive(`?file=${small}&at=5000000`);
  const { page } = visitor;
  await page.getByText(/^This log has .*; byte 5,000,000 is behind its end\./).waitFor();
  assert.equal(await page.getByText("The log is empty.").count(), 0);
  assert.equal(await page.getByRole("button", { name: "Copy", exact: true }).count(), 0);
  await page.getByRole("button", { name: "Show the end" }).click();
  await visitor.sees("All of it:");
  assert.equal(queryOf(page).get("file"), small);
  await visitor.leave();
});

test("the first error is found, with lines around; a bad expression says why", async () => {
  const visitor = await arrive("?context=2");
  const { page } = visitor;
  await log(page).waitFor();
  await page.keyboard.press("e");
  await page.waitForFunction((line) => document.querySelector("pre.log mark")?.textContent === line, kErrors[0]);
  await markIsSeen(page);
  assert.equal(await page.locator(".hits li.around").count(), 8);
  await visitor.sees("1 of 2 matching lines; all of it searched");
  await page.keyboard.press("n");
  await page.waitForFunction((line) => document.querySelector("pre.log mark")?.textContent === line, kErrors[1]);
  await page.reload();
  await visitor.sees("2 matching lines");
  await page.keyboard.press("/");
  await page.keyboard.type("step (1");
  await page.keyboard.press("Enter");
  await visitor.sees("grep is not a regular expression that RE2 takes: missing ): step (1");
  await page.keyboard.press("Control+A");
  await page.keyboard.type("there is no such line");
  await page.keyboard.press("Enter");
  await visitor.sees("No line matches; all of it searched");
  await visitor.leave(/status of 400/);
});

test("a line that begins with Hebrew stays at the left, and its words in their order", async () => {
  appendFileSync(path, "\u05e9\u05d2\u05d9\u05d0\u05d4 step 7\n");
  const visitor = await arrive();
  const { page } = visitor;
  await log(page).getByText("step 7").last().waitFor();
  const [first, last, edge] = await log(page).evaluate((box) => {
    const texts = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
    let node = null;
    while (texts.nextNode()) if (texts.currentNode.data.includes("\u05e9")) node = texts.currentNode;
    const begin = node.data.indexOf("\u05e9");
    const left = (from, to) => {
      const range = document.createRange();
      range.setStart(node, begin + from);
      range.setEnd(node, begin + to);
      return range.getBoundingClientRect().left;
    };
    const { left: out } = box.getBoundingClientRect();
    return [left(0, 5), left(6, 12), out + parseFloat(getComputedStyle(box).paddingLeft)];
  });
  assert.ok(Math.abs(first - edge) < 4, `${first} px, not ${edge}`);
  assert.ok(last > first, `${last} px`);
  await visitor.leave();
});

test("hostile text is text, colours are readable, and a long line is cut", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const visitor = await arrive("?grep=black+on+black", { colorScheme });
    const { page } = visitor;
    await page.waitForFunction(() => document.querySelector("pre.log mark")?.textContent.startsWith("red"));
    const text = await log(page).innerText();
    for (const word of [
      "red orange black on black concealed\n",
      `<script>window.stolen=1</script><img src=x onerror="window.stolen=1">\n`,
      "NUL[] RTL[gnp.exe] erased[] title[]\n100%|###|\n",
    ]) {
      assert.ok(text.includes(word), word);
    }
    assert.equal(await page.locator("#app img, #app script").count(), 0);
    assert.equal(await page.evaluate(() => window.stolen), undefined);
    const found = await page.evaluate(() =>
      [...document.querySelectorAll("pre.log mark span")].map((one) => {
        const { color, backgroundColor, fontWeight } = getComputedStyle(one);
        return { text: one.textContent, color, backgroundColor, fontWeight };
      }),
    );
    const parts = (words) => words.match(/\d+/g).slice(0, 3).map(Number);
    const page_ = { light: [241, 243, 246], dark: [16, 21, 27] }[colorScheme];
    assert.deepEqual(found.map((one) => one.text), ["red", "orange", "black on black"]);
    assert.equal(found[1].fontWeight, "700");
    assert.equal(found[2].backgroundColor, "rgb(0, 0, 0)");
    for (const one of found) {
      const on = one === found[2] ? [0, 0, 0] : page_;
      assert.ok(colours.contrast(parts(one.color), on) >= 4.5, `${one.text} ${one.color}`);
    }
    await page.getByText(/more characters of this line/).first().waitFor();
    await visitor.keepPicture(`log-colours-${colorScheme}`);
    await visitor.leave();
  }
});

test("nothing is wider than a phone; unwrapped lines scroll in their box", async () => {
  const visitor = await arrive("?grep=FATAL", { viewport: { width: 390, height: 844 } });
  const { page } = visitor;
  await page.locator("pre.log mark").waitFor();
  for (const wraps of [true, false]) {
    const [width, inner] = await page.evaluate(() => [
      document.documentElement.scrollWidth,
      document.querySelector("pre.log").scrollWidth - document.querySelector("pre.log").clientWidth,
    ]);
    assert.ok(width <= 390, `${width} px`);
    assert.equal(inner <= 0, wraps, `${inner} px`);
    if (wraps) await visitor.keepPicture("log-narrow");
    await page.getByRole("button", { name: "Wrap" }).click();
  }
  await visitor.leave();
});

test("a byte is gone to, and one behind the end is the last", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await log(page).waitFor();
  const lines = kLog.split("\n");
  const offset = Buffer.byteLength(lines.slice(0, 1000).join("\n")) + 1;
  await page.getByRole("textbox", { name: "Go to byte" }).fill(offset.toLocaleString("en-US"));
  await page.getByRole("button", { name: "Go", exact: true }).click();
  await page.waitForFunction((line) => document.querySelector("pre.log mark")?.textContent === line, lines[1000]);
  const byte = page.getByRole("textbox", { name: "Go to byte" });
  for (const word of ["abc", "0x10", "1e6", "-3", ""]) {
    await byte.fill(word);
    assert.equal(await byte.getAttribute("aria-invalid"), null);
    await page.getByRole("button", { name: "Go", exact: true }).click();
    await page.getByRole("alert").getByText("Type the number of a byte").waitFor();
    assert.equal(await byte.getAttribute("aria-invalid"), "true");
    assert.equal(Number(queryOf(page).get("at")), offset);
  }
  await page.getByRole("textbox", { name: "Go to byte" }).fill("99999999999");
  await page.getByRole("button", { name: "Go", exact: true }).click();
  await page.waitForFunction(() => /at=\d{7}(&|$)/.test(location.hash));
  // The byte is of this log, and of no other that is chosen.
  await page.locator(".log-choice select").selectOption(small);
  await page.waitForFunction((file) => location.hash.includes(encodeURIComponent(file)), small);
  assert.deepEqual([queryOf(page).get("at"), queryOf(page).get("of")], [null, null]);
  await visitor.sees("All of it:");
  await visitor.leave();
});

test("a search says nothing once another has taken its place", async () => {
  const visitor = await arrive();
  const { page } = visitor;
  await log(page).waitFor();
  let letGo;
  const held = new Promise((done) => (letGo = done));
  await page.route(/grep=slow/, async (route) => {
    await held;
    const lines = [{ line: 1, offset: 0, match: true, text: "slow" }];
    const json = { file: null, lines, scanned_bytes: 1, next: null };
    await route.fulfill({ json }).catch(() => undefined); // nobody waits for it any more
  });
  const search = async (text) => {
    await page.getByRole("searchbox").fill(text);
    await page.keyboard.press("Enter");
  };
  const asked = page.waitForRequest(/grep=slow/);
  await search("slow");
  await asked;
  await search("FATAL");
  const status = page.locator(".hits-head");
  await status.getByText(/^1 of 1 matching line; all of it searched/).waitFor();
  const at = queryOf(page).get("at");
  letGo();
  await page.waitForTimeout(500);
  assert.match(await status.innerText(), /^1 of 1 matching line/);
  assert.equal(queryOf(page).get("at"), at);
  await visitor.leave();
});
