// Raw values live in src/tokens.css only: no colour is written anywhere else.
import { readdir, readFile } from "node:fs/promises";

const root = new URL("../src/", import.meta.url);
const bad = [];
for (const name of await readdir(root, { recursive: true })) {
  if (!/\.(css|svelte)$/.test(name) || name === "tokens.css") continue;
  const text = await readFile(new URL(name, root), "utf8");
  text.split("\n").forEach((line, i) => {
    if (/#[0-9a-f]{3,8}\b(?!-)/i.test(line.replace(/url\(#[^)]*\)|href="#[^"]*"|fill="#(fff|000)"|\{#\w+|"#\//g, "")) || /\b(rgb|hsl|oklch)a?\(/.test(line)) bad.push(`${name}:${i + 1}: ${line.trim()}`);
  });
}
if (bad.length > 0) {
  console.error(`Colours outside tokens.css:\n${bad.join("\n")}`);
  process.exit(1);
}
