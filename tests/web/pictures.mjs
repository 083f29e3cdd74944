// Pictures of every view in light, dark and narrow, over made-up runs:
//   REGATTA_BINARY=build/release/orchestrator/regatta node tests/web/pictures.mjs [OUT]
// With --sweeps those of sweeps and experiments alone, which need no controller. With --small the few that web/README.md shows, at half their size: node tests/web/pictures.mjs --small web/pictures
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { launch } from "../../web/browser.mjs";
import { makeExperiments } from "./experiments.mjs";
import { goTo, placesOf } from "./places.mjs";
import { Fixture } from "./fixture.mjs";
import { Seeded } from "./seeded.mjs";
import { Visitor, kOut } from "./setup.mjs";
import { makeSweeps } from "./sweeps.mjs";

const kLooks = {
  light: { colorScheme: "light", viewport: { width: 1440, height: 900 } },
  dark: { colorScheme: "dark", viewport: { width: 1440, height: 900 } },
  narrow: { colorScheme: "light", viewport: { width: 390, height: 844 } },
};
const kSmall = { small: { ...kLooks.light, deviceScaleFactor: 0.5 } };
const kShown = [
  ...["runs", "run", "run-time", "run-checkpoints", "compare", "sweep", "experiment", "cluster", "submit", "events"],
];
const kSweeps = new Map([
  ["sweeps", ["/sweeps", "table.sweeps"]],
  ["sweep", ["/sweeps/lr-sweep-4f2a91", ".trial-line"]],
  ["experiments", ["/experiments", "table.experiments"]],
  ["experiment", ["/experiments/77ab01", ".seeds path"]],
]);

const flag = { type: "boolean" };
const { values, positionals } = parseArgs({
  options: { small: flag, sweeps: flag },
  allowPositionals: true,
});
const out = positionals[0] ?? join(kOut, "pictures");

// Of these places, in each look.
async function take(browser, link, places, ready) {
  for (const [look, options] of Object.entries(values.small ? kSmall : kLooks)) {
    const { page } = await Visitor.arrive(browser, link(), options);
    await page.locator(ready).first().waitFor();
    for (const [name, place] of places) {
      if (values.small && !kShown.includes(name)) continue;
      await goTo(page, place);
      const path = join(out, values.small ? `${name}.png` : `${name}-${look}.png`);
      await page.screenshot({ path, fullPage: !values.small });
      console.log(path);
    }
    await page.close();
  }
}

mkdirSync(out, { recursive: true });
const browser = await launch();
const fixture = await new Fixture([]).start();
fixture.sweeps = makeSweeps();
fixture.experiments = makeExperiments();
const seeded = values.sweeps ? null : await new Seeded({ runs: 60 }).start();
try {
  if (seeded) await take(browser, () => seeded.link(), await placesOf(seeded), "table.runs tbody tr");
  await take(browser, () => `${fixture.url}#/`, kSweeps, ".empty");
} finally {
  await browser.close();
  await fixture.stop();
  await seeded?.stop();
}
