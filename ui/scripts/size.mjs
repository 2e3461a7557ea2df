// The window without its editor chunk stays within 350 kB gzip.
import { readdir, readFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

const LIMIT = 350 * 1024;
const dir = new URL("../dist/assets/", import.meta.url);
let total = 0;
for (const name of (await readdir(dir)).sort()) {
  const size = gzipSync(await readFile(new URL(name, dir))).length;
  const editor = /^editor-/.test(name);
  if (!editor) total += size;
  console.log(`${(size / 1024).toFixed(1).padStart(8)} kB  ${name}${editor ? "  (editor, loaded with the first skill)" : ""}`);
}
console.log(`${(total / 1024).toFixed(1).padStart(8)} kB  gzip without the editor; the limit is ${LIMIT / 1024} kB`);
if (total > LIMIT) process.exit(1);
