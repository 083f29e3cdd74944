// Sources of the page as a module of node, for tests of what needs no browser. contents: what the
// module exports, such as `export * from "./src/base/format"`.
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const web = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "web");
const { buildSync } = createRequire(join(web, "package.json"))("esbuild");

export function sourcesOf(contents) {
  const bundle = buildSync({
    stdin: { contents, resolveDir: web },
    absWorkingDir: web,
    bundle: true,
    format: "esm",
    write: false,
    platform: "browser",
    jsx: "automatic",
    jsxImportSource: "preact",
    loader: { ".css": "empty" },
    define: { BroadcastChannel: "undefined" }, // the session's would keep node waiting
  });
  const code = Buffer.from(bundle.outputFiles[0].contents).toString("base64");
  return import(`data:text/javascript;base64,${code}`);
}
