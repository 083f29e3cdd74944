// Addresses that lead nowhere, or to a page of the list that somebody else had before.
import assert from "node:assert/strict";
import { makeRun, standardRuns } from "./fixture.mjs";
import { Visitor, browser, pageTests } from "./setup.mjs";

const pageTest = pageTests();
const arrive = (fixture, place) => Visitor.arrive(browser, `${fixture.url}${place}`);

pageTest("a view that there is not is told, with those that there are", standardRuns, async (fixture) => {
  const visitor = await arrive(fixture, "#/nonsense");
  const { page } = visitor;
  await page.getByRole("heading", { name: "There is no such view" }).waitFor();
  assert.match(await page.title(), /No such view/);
  assert.equal(await page.locator(".places [aria-current]").count(), 0);
  await page.goto(`${fixture.url}#/runs/demo-4f2a91/nonsense`);
  const ways = page.locator(".ways-out a");
  await ways.filter({ hasText: "Checkpoints" }).waitFor();
  assert.equal(await ways.count(), 7);
  await ways.filter({ hasText: "Details" }).click();
  await page.getByRole("link", { name: "Details", exact: true }).waitFor();
  await page.goto(`${fixture.url}#/nonsense`);
  await ways.filter({ hasText: "Runs" }).click();
  await page.locator("table.runs").waitFor();
  await visitor.leave();
});

const kRows = 272;
const kPage = 100;
// Answers the list in pages, and refuses what the controller refuses.
async function paged(page) {
  await page.route(/\/api\/v1\/runs\?/, (route) => {
    const asked = new URL(route.request().url()).searchParams;
    const refuse = (parameter, detail) =>
      route.fulfill({ status: 400, json: { status: 400, code: "bad_request", detail, parameter } });
    const place = asked.get("before") ?? "cd0";
    if (!/^cd\d+$/.test(place)) return refuse("before", `before is '${place}'; use the \`next\``);
    if (asked.has("sort")) return refuse("sort", `sort is '${asked.get("sort")}'`);
    const from = Number(place.slice(2));
    const to = Math.min(kRows, from + kPage);
    const runs = Array.from({ length: to - from }, (_, i) => makeRun(`run-${from + i}-000000`));
    return route.fulfill({ json: { runs, next: to < kRows ? `cd${to}` : null, total: kRows } });
  });
}
async function arriveAtPages(fixture, place) {
  const visitor = await arrive(fixture, "#/nonsense");
  await visitor.isLetIn();
  await paged(visitor.page);
  await visitor.page.goto(`${fixture.url}${place}`);
  return visitor;
}
const count = (page) => page.locator(".heading [role=status]").first();

pageTest("pages of the list are told, and the way back is known after a reload", standardRuns, async (fixture) => {
  const visitor = await arriveAtPages(fixture, "#/");
  const { page } = visitor;
  const press = (name) => page.getByRole("button", { name, exact: true }).click();
  await visitor.sees("100 of 272 shown");
  await press("Next");
  await visitor.sees("101–200 of 272 shown");
  await page.reload();
  await visitor.sees("101–200 of 272 shown");
  await press("Next");
  await visitor.sees("201–272 of 272 shown");
  await press("Previous");
  await visitor.sees("101–200 of 272 shown");
  await press("Previous");
  await visitor.sees("100 of 272 shown");
  await visitor.leave();
});

pageTest("of a page from a link is told what is known of it", standardRuns, async (fixture) => {
  const visitor = await arriveAtPages(fixture, "#/?before=cd100");
  const { page } = visitor;
  await visitor.sees("100 of 272 shown");
  await visitor.sees("A link leads only onwards from here");
  const previous = page.getByRole("button", { name: "Previous" });
  assert.equal(await previous.getAttribute("aria-disabled"), "true");
  await page.getByRole("button", { name: "Next" }).click();
  await visitor.sees("201–272 of 272 shown");
  await previous.click();
  await visitor.sees("100 of 272 shown");
  await visitor.leave();
});

pageTest("an address that the controller refuses has a way out", standardRuns, async (fixture) => {
  const visitor = await arriveAtPages(fixture, "#/?before=xxxx&text=a");
  const { page } = visitor;
  await visitor.sees("before is 'xxxx'");
  await page.getByRole("textbox", { name: "Search runs" }).waitFor();
  await page.getByRole("button", { name: "First page" }).click();
  await visitor.sees("100 of 272 shown");
  assert.equal(new URL(page.url()).hash, "#/?text=a");
  await page.goto(`${fixture.url}#/?sort=foo`);
  await page.getByRole("button", { name: "Without sort" }).click();
  await page.locator("tr[data-run=run-0-000000]").waitFor();
  await page.goto(`${fixture.url}#/?sort=foo`);
  await page.getByRole("link", { name: "Show all runs" }).click();
  await visitor.seesNoMore("refused");
  await visitor.leave(/400/);
});

pageTest("while a filter is asked for the count is none of the rows", standardRuns, async (fixture) => {
  const visitor = await arriveAtPages(fixture, "#/");
  const { page } = visitor;
  await visitor.sees("100 of 272 shown");
  let open = () => undefined;
  const isOpen = new Promise((done) => (open = done));
  await page.route(/\/api\/v1\/runs\?.*text=a/, async (route) => {
    await isOpen;
    await route.fallback();
  });
  await page.goto(`${fixture.url}#/?text=a`);
  await page.locator('.stale[aria-busy="true"]').waitFor();
  assert.equal(await count(page).innerText(), "Asking…");
  open();
  await visitor.sees("100 of 272 shown");
  assert.equal(await page.locator('[aria-busy="true"]').count(), 0);
  await visitor.leave();
});

pageTest("a run that is removed while it is shown is told as removed", standardRuns, async (fixture) => {
  const visitor = await arrive(fixture, "#/runs/demo-4f2a91");
  const { page } = visitor;
  await page.locator(".headline").waitFor();
  fixture.entries = fixture.entries.filter(({ run }) => run.id !== "demo-4f2a91");
  await page.getByRole("heading", { name: "The run is removed" }).waitFor();
  assert.equal(await page.title(), "Removed: demo · Regatta");
  await page.goto(`${fixture.url}#/runs/never-000001`);
  await page.getByRole("heading", { name: "No such run" }).waitFor();
  assert.equal(await page.title(), "No such run · Regatta");
  await visitor.leave(/404/);
});
