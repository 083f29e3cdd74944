// The places of the page that pictures are taken of and that axe looks at, over a seeded store.
export async function placesOf(seeded) {
  const first = async (state) => (await seeded.ask(`runs?state=${state}&limit=1`)).runs[0].id;
  const run = await first("succeeded");
  const failed = await first("failed");
  const tabs = ["time", "checkpoints", "plan", "log", "events", "details"];
  const views = ["nodes", "cluster", "events", "submit", "settings"];
  // name: [place, what is there when it has come]
  return new Map([
    ["runs", ["/", "table.runs tbody tr"]],
    ["runs-none", ["/?state=failed&text=nobody", ".empty"]],
    ["run", [`/runs/${run}`, "figure.chart canvas"]],
    ["run-failed", [`/runs/${failed}`, ".tabs"]],
    ...tabs.map((tab) => [`run-${tab}`, [`/runs/${run}/${tab}`, ".tabs [aria-current]"]]),
    ["compare", [`/compare?runs=${run},${failed}`, "main h1"]],
    ["compare-environments", [`/compare?runs=${run},${failed}&environments=1`, ".fingerprints p"]],
    ["compare-pair", [`/compare?runs=${run},${failed}&speed=1&learning=1`, ".learning table, .learning p"]],
    ...views.map((view) => [view, [`/${view}`, "main h1"]]),
  ]);
}

// Goes there and waits until what it asks for has come.
export async function goTo(page, [place, seen]) {
  await page.goto(new URL(`#${place}`, page.url()).href);
  await page.locator(seen).first().waitFor();
  await page.waitForTimeout(500);
}
