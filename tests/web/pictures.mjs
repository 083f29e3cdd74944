// Pictures of every view in light, dark and narrow, over made-up runs:
//   REGATTA_BINARY=build/release/orchestrator/regatta node tests/web/pictures.mjs [OUT]
// With --small the few that web/README.md shows, at half their size: node tests/web/pictures.mjs --small web/pictures
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { launch } from "../../web/browser.mjs";
import { goTo, placesOf } from "./places.mjs";
import { Seeded } from "./seeded.mjs";
import { Visitor, kOut } from "./setup.mjs";

const kLooks = {
  light: { colorScheme: "light", viewport: { width: 1440, height: 900 } },
  dark: { colorScheme: "dark", viewport: { width: 1440, height: 900 } },
  narrow: { colorScheme: "light", viewport: { width: 390, height: 844 } },
};
const kSmall = { small: { ...kLooks.light, deviceScaleFactor: 0.5 } };
const kShown = ["runs", "run", "run-time", "run-checkpoints", "compare", "cluster", "submit", "events"];

const { values, positionals } = parseArgs({ options: { small: { type: "boolean" } }, allowPositionals: true });
const out = positionals[0] ?? join(kOut, "pictures");
mkdirSync(out, { recursive: true });
const seeded = await new Seeded({ runs: 60 }).start();
const browser = await launch();
try {
  const places = await placesOf(seeded);
  for (const [look, options] of Object.entries(values.small ? kSmall : kLooks)) {
    const { page } = await Visitor.arrive(browser, seeded.link(), options);
    await page.locator("table.runs tbody tr").first().waitFor();
    for (const [name, place] of places) {
      if (values.small && !kShown.includes(name)) continue;
      await goTo(page, place);
      const path = join(out, values.small ? `${name}.png` : `${name}-${look}.png`);
      await page.screenshot({ path, fullPage: !values.small });
      console.log(path);
    }
    await page.close();
  }
} finally {
  await browser.close();
  await seeded.stop();
}
