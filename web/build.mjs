// Bundles src/ into dist/: index.html, assets/app-<hash>.{js,css,svg}, and a script for each view,
// which is loaded when that is opened. The hash is of the content, so equal sources give equal names
// and bytes wherever they lie.
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));

const bundle = await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx" },
  outdir: "assets",
  entryNames: "[name]",
  chunkNames: "[name]~[hash]", // given up below: esbuild's hash depends on paths
  bundle: true,
  splitting: true,
  metafile: true,
  minify: true,
  write: false,
  format: "esm",
  target: ["es2022", "chrome102", "firefox104", "safari15.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  charset: "utf8",
  logLevel: "warning",
});

const assets = new Map(); // esbuild's name → [ours, bytes]
const add = (file, bytes) => {
  const hash = createHash("sha256").update(bytes).digest("hex").slice(0, 12);
  const name = basename(file, extname(file)).split("~")[0];
  assets.set(file, [`assets/${name}-${hash}${extname(file)}`, bytes]);
};
// What a script imports comes first, since its name is in the script.
const texts = new Map(bundle.outputFiles.map(({ path, text }) => [basename(path), text]));
const addScript = (file) => {
  if (assets.has(file)) return;
  let text = texts.get(file);
  for (const { path, external } of bundle.metafile.outputs[`assets/${file}`].imports) {
    if (external) continue;
    addScript(basename(path));
    text = text.replaceAll(basename(path), basename(assets.get(basename(path))[0]));
  }
  add(file, Buffer.from(text));
};
for (const file of texts.keys()) addScript(file);
add("app.svg", readFileSync(join(here, "icon.svg")));

// What the page needs at once is asked for at once, not when the script that imports it has come.
const preloads = bundle.metafile.outputs["assets/app.js"].imports
  .filter(({ kind }) => kind === "import-statement")
  .map(({ path }) => `<link rel="modulepreload" href="${assets.get(basename(path))[0]}">`);

const page = readFileSync(join(here, "index.html"), "utf8")
  .replace("%SCRIPT%", assets.get("app.js")[0])
  .replace("%STYLE%", assets.get("app.css")[0])
  .replace("%PRELOADS%", preloads.join("\n"))
  .replace("%ICON%", assets.get("app.svg")[0]);

// In place, each file by rename and index.html after what it names, so that a reader never finds half
// a page; what the new page no longer names goes last.
const dist = join(here, "dist");
const put = (name, bytes) => {
  const path = join(dist, name);
  if (existsSync(path) && readFileSync(path).equals(bytes)) return;
  const fresh = join(here, "node_modules", `.page.${process.pid}`); // git ignores it
  writeFileSync(fresh, bytes);
  renameSync(fresh, path);
};
mkdirSync(join(dist, "assets"), { recursive: true });
for (const [name, bytes] of assets.values()) put(name, bytes);
put("index.html", Buffer.from(page));
const current = new Set(["index.html", "assets", ...[...assets.values()].map(([name]) => name)]);
for (const name of readdirSync(dist, { recursive: true })) {
  if (!current.has(name)) rmSync(join(dist, name), { recursive: true, force: true });
}

let script = 0;
for (const [name, bytes] of [["index.html", Buffer.from(page)], ...assets.values()]) {
  const zipped = gzipSync(bytes, { level: 9 }).length;
  if (name.endsWith(".js")) script += zipped;
  console.log(`web/dist/${name}  ${bytes.length} bytes, ${zipped} gzipped`);
}
console.log(`all scripts: ${script} bytes gzipped`);
