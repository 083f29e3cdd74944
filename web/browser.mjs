// A headless Chromium for screenshots and tests: Debian's package, driven by playwright-core.
import { accessSync, constants } from "node:fs";
import { chromium } from "playwright-core";

export const kChromium = process.env.CHROMIUM || "/usr/bin/chromium";

export function chromiumMissing() {
  try {
    accessSync(kChromium, constants.X_OK);
    return null;
  } catch {
    return `${kChromium} cannot be run; install the package chromium or name one with CHROMIUM=…`;
  }
}

export function launch() {
  return chromium.launch({
    executablePath: kChromium,
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}
