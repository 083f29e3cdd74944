// Pictures of every view in light, dark and narrow, over made-up runs:
//   REGATTA_BINARY=build/release/orchestrator/regatta node tests/web/pictures.mjs [OUT]
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { launch } from "../../web/browser.mjs";
import { goTo, placesOf } from "./places.mjs";
import { Seeded } from "./seeded.mjs";
import { Visitor, kOut } from "./setup.mjs";

const kLooks = {
  light: { colorScheme: "light", viewport: { width: 1440, height: 900 } },
  dark: { colorScheme: "dark", viewport: { width: 1440, height: 900 } },
  narrow: { colorScheme: "light", viewport: { width: 390, height: 844 } },
};

const out = process.argv[2] ?? join(kOut, "pictures");
mkdirSync(out, { recursive: true });
const seeded = await new Seeded({ runs: 60 }).start();
const browser = await launch();
try {
  const places = await placesOf(seeded);
  for (const [look, options] of Object.entries(kLooks)) {
    const { page } = await Visitor.arrive(browser, seeded.link(), options);
    await page.locator("table.runs tbody tr").first().waitFor();
    for (const [name, place] of places) {
      await goTo(page, place);
      const path = join(out, `${name}-${look}.png`);
      await page.screenshot({ path, fullPage: true });
      console.log(path);
    }
    await page.close();
  }
} finally {
  await browser.close();
  await seeded.stop();
}
