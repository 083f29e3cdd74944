// How the page is entered: a link of `regatta open` with a one-time ticket, and what is seen without.
import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { Fixture, standardRuns } from "./fixture.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";

const loginTest = pageTests();

const kNeedsLink = "This page needs a link from the controller’s user";
const linkOf = (fixture, place = "") => `${fixture.url}#ticket=${fixture.makeTicket()}${place}`;
const storedSession = (page) => page.evaluate(() => sessionStorage.getItem("regatta.session"));

loginTest("a link opens the page once and leaves no ticket", standardRuns, async (fixture) => {
  const link = linkOf(fixture, "/runs/demo-4f2a91");
  const visitor = await Visitor.arrive(browser, link);
  const { page } = visitor;
  await visitor.sees("Predicted time to target");
  assert.equal(new URL(page.url()).hash, "#/runs/demo-4f2a91", "the link leads to the run");
  assert.equal(await page.evaluate(() => history.length), 2, "no entry of its own"); // about:blank
  assert.match(await storedSession(page), /^[0-9a-f]{64}$/);
  assert.equal(await page.evaluate(() => document.cookie + JSON.stringify(localStorage)), "{}");
  await page.reload();
  await visitor.sees("Predicted time to target");
  assert.equal(fixture.count("POST", "/api/v1/session"), 1, "a reload keeps the session");
  await page.goto(link); // in the same tab the session is good as it was
  await visitor.sees("Predicted time to target");
  await visitor.leave(/status of 401/);

  const second = await Visitor.arrive(browser, link);
  await second.sees(kNeedsLink);
  await second.sees("this link was used already");
  assert.equal(await storedSession(second.page), null);
  await second.leave(/status of 401/);
});

loginTest("without a link the page asks nothing and says what to do", standardRuns, async (fixture) => {
  const visitor = await Visitor.arriveAt(browser, `${fixture.url}#/runs/demo-4f2a91`);
  const { page } = visitor;
  await visitor.sees(kNeedsLink);
  await visitor.sees("regatta open");
  assert.ok(!fixture.requests.some((line) => line.includes("/api/")), fixture.requests.join());
  const field = page.getByLabel("Or paste the link here");
  const button = page.getByRole("button", { name: "Open" });
  await field.fill("https://elsewhere.example/");
  await button.click();
  await visitor.sees("That is not a link of regatta open.");
  await field.fill("0".repeat(32));
  await button.click();
  await visitor.sees("this link was used already");
  await field.fill(`  ${linkOf(fixture, "/runs/perl-doc-77ab01")}\n`);
  await button.click();
  await page.getByRole("heading", { name: "perl-doc" }).waitFor();
  assert.equal(new URL(page.url()).hash, "#/runs/perl-doc-77ab01");
  await visitor.leave(/status of 401/);
});

loginTest("a ticket alone can be pasted, and the place is kept", standardRuns, async (fixture) => {
  const visitor = await Visitor.arriveAt(browser, `${fixture.url}#/runs/demo-4f2a91`);
  await visitor.sees(kNeedsLink);
  await visitor.page.getByLabel("Or paste the link here").fill(fixture.makeTicket());
  await visitor.page.keyboard.press("Enter");
  await visitor.sees("Predicted time to target");
  await visitor.leave();
});

loginTest("a restarted controller ends the session in the middle", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, linkOf(fixture));
  const { page } = visitor;
  await visitor.page.locator('tr[data-run="demo-4f2a91"]').waitFor();
  fixture.forgetSessions();
  await visitor.sees(kNeedsLink);
  await visitor.sees("when the controller is restarted");
  assert.equal(await page.title(), "Regatta", "nothing is said to run");
  assert.equal(await storedSession(page), null, "whoever has the port later finds nothing here");
  const asked = fixture.requests.length;
  await page.waitForTimeout(2500);
  assert.equal(fixture.requests.length, asked, "nothing is asked without a session");
  await page.goto(linkOf(fixture)); // in the same tab: only the hash changes
  await visitor.page.locator('tr[data-run="demo-4f2a91"]').waitFor();
  await visitor.leave(/status of 401/);
});

loginTest("a refused download ends the session, too", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, linkOf(fixture, "/runs/demo-4f2a91/log"));
  const { page } = visitor;
  const download = page.getByRole("button", { name: "Download the log" });
  await download.waitFor();
  const refusal = { status: 401, code: "unauthorized", detail: "run 'regatta open'" };
  await page.route("**/logs/download", (route) => route.fulfill({ status: 401, json: refusal }));
  await download.click();
  await visitor.sees(kNeedsLink);
  await visitor.leave(/status of 401/);
});

loginTest("a run in a new tab, and what tabs tell each other", standardRuns, async (fixture) => {
  const visitor = await Visitor.arrive(browser, linkOf(fixture));
  const { page } = visitor;
  const demo = page.getByRole("link", { name: "demo", exact: true });
  await demo.waitFor();
  const opened = page.context().waitForEvent("page");
  await demo.click({ modifiers: ["Control"] });
  const tab = await opened;
  await tab.getByText("Predicted time to target").waitFor();
  assert.equal(fixture.count("POST", "/api/v1/session"), 1);
  fixture.forgetSessions();
  for (const each of [page, tab]) await each.getByText(kNeedsLink).waitFor();
  const asked = fixture.requests.length;
  await page.waitForTimeout(1500);
  assert.equal(fixture.requests.length, asked, "a dead session does not go round");
  await page.goto(linkOf(fixture));
  await page.locator('tr[data-run="demo-4f2a91"]').waitFor();
  await tab.getByText("Predicted time to target").waitFor();
  await tab.close();
  await visitor.leave(/status of 401/);
});

loginTest("a damaged ticket leaves the address, too", standardRuns, async (fixture) => {
  for (const hash of ["#ticket=", "#ticket=../x", `#ticket=${"g".repeat(32)}/runs/demo-4f2a91`]) {
    const visitor = await Visitor.arriveAt(browser, fixture.url + hash);
    await visitor.sees(kNeedsLink);
    assert.equal(new URL(visitor.page.url()).hash, "#/");
    await visitor.leave();
  }
});

loginTest("the view without a session fits a phone and both themes", standardRuns, async (fixture) => {
  for (const colorScheme of ["light", "dark"]) {
    for (const [width, height] of [
      [1200, 800],
      [390, 780],
    ]) {
      const visitor = await Visitor.arriveAt(browser, fixture.url, {
        colorScheme,
        viewport: { width, height },
      });
      await visitor.sees(kNeedsLink);
      const wide = await visitor.page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${wide} pixels wide`);
      await visitor.keepPicture(`login-${colorScheme}-${width}`);
      await visitor.leave();
    }
  }
});

// One origin with a controller below each of several paths, as a portal has it.
async function portal(targets) {
  const server = createServer((asked, answer) => {
    const path = Object.keys(targets).find((one) => asked.url.startsWith(one));
    if (!path) return void answer.writeHead(404).end();
    const { method, headers } = asked;
    const place = { port: targets[path].port, path: asked.url.slice(path.length - 1) };
    const passed = request({ host: "127.0.0.1", method, headers, ...place }, (response) => {
      answer.writeHead(response.statusCode, response.headers);
      response.pipe(answer);
    });
    passed.on("error", () => answer.writeHead(502).end());
    asked.pipe(passed);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${server.address().port}`;
  const stop = async () => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  };
  return { url, stop };
}

loginTest("controllers below one origin have a session each", standardRuns, async (fixture) => {
  const other = await new Fixture(standardRuns()).start();
  const { url, stop } = await portal({ "/one/": fixture, "/two/": other });
  try {
    const visitor = await Visitor.arrive(browser, `${url}/one/#ticket=${fixture.makeTicket()}`);
    const { page } = visitor;
    const demo = (tab) => tab.locator('tr[data-run="demo-4f2a91"]');
    await demo(page).waitFor();
    const opened = page.context().waitForEvent("page");
    await page.evaluate((at) => void window.open(at, "_blank", "noopener"), `${url}/two/`);
    const tab = await opened;
    await tab.getByText(kNeedsLink).waitFor();
    assert.equal(await tab.getByRole("alert").innerText(), "", "it has lost no session");
    assert.ok(!other.requests.some((line) => line.includes("/api/")), other.requests.join());
    await tab.goto(`${url}/two/#ticket=${other.makeTicket()}`);
    await demo(tab).waitFor();
    await tab.goto(`${url}/one/`); // whose session the first tab tells
    await demo(tab).waitFor();
    await tab.goto(`${url}/two/`);
    await demo(tab).waitFor();
    assert.equal(other.count("POST", "/api/v1/session"), 1);
    await visitor.leave();
  } finally {
    await stop();
    await other.stop();
  }
});
