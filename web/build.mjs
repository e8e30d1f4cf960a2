// Bundles the page into a folder: node build.mjs FOLDER ENGINE.wasm; or, for tests in node, the parts of its
// threads: node build.mjs --parts FOLDER.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync } from "node:zlib";
import { build } from "esbuild";

const source = join(dirname(fileURLToPath(import.meta.url)), "src");
const usual = { bundle: true, format: "esm", target: "es2022", legalComments: "none", logLevel: "warning" };

async function page(folder, engine) {
  mkdirSync(folder, { recursive: true });
  const entryPoints = ["page.ts", "worker.ts", "socket.ts", "style.css"].map((name) => join(source, name));
  await build({ ...usual, entryPoints, outdir: folder, minify: true });
  const files = { files: join(source, "files", "worker.ts") };
  await build({ ...usual, entryPoints: files, outdir: folder, minify: true });
  for (const name of ["index.html", "headers.json"]) copyFileSync(join(source, name), join(folder, name));
  writeFileSync(join(folder, "tacita.wasm.br"), brotliCompressSync(readFileSync(engine)));
}

async function parts(folder) {
  const own = ["chunks", "engine", "request", "upload"].map((name) => `files/${name}.ts`);
  const plain = ["engine", "language", "link", "result", "ring", "service", "session"];
  plain.push("turns", "ways", "words");
  const entryPoints = [...plain.map((name) => `${name}.ts`), ...own].map((name) => join(source, name));
  await build({ ...usual, entryPoints, outdir: folder, outbase: source, platform: "node" });
}

const [first, second] = process.argv.slice(2);
await (first === "--parts" ? parts(second) : page(first, second));
