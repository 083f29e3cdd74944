// Bundles src/ into dist/: index.html and assets/app-<hash>.{js,css,svg}.
// The hash is of the content, so equal sources give equal names and bytes wherever they lie.
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
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));

const bundle = await build({
  absWorkingDir: here,
  entryPoints: ["src/main.tsx"],
  outdir: "dist",
  bundle: true,
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

const assets = new Map(); // extension → [name, bytes]
const add = (extension, bytes) => {
  const hash = createHash("sha256").update(bytes).digest("hex").slice(0, 12);
  assets.set(extension, [`assets/app-${hash}${extension}`, bytes]);
};
for (const file of bundle.outputFiles) add(extname(file.path), Buffer.from(file.contents));
add(".svg", readFileSync(join(here, "icon.svg")));

const page = readFileSync(join(here, "index.html"), "utf8")
  .replace("%SCRIPT%", assets.get(".js")[0])
  .replace("%STYLE%", assets.get(".css")[0])
  .replace("%ICON%", assets.get(".svg")[0]);

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

for (const [name, bytes] of [["index.html", Buffer.from(page)], ...assets.values()]) {
  const zipped = gzipSync(bytes, { level: 9 }).length;
  console.log(`web/dist/${name}  ${bytes.length} bytes, ${zipped} gzipped`);
}
