// Writes src/api/schema.d.ts from the service's OpenAPI file; `--check` fails if the checked-in file is not current.
import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString, stringToAST } from "openapi-typescript";

const source = process.env.METACLAW_OPENAPI ?? new URL("../../crates/engine/openapi.json", import.meta.url);
const target = new URL("../src/api/schema.d.ts", import.meta.url);

const [alias] = stringToAST("type Open = Record<string, unknown>;");
const open = alias.type;
const nodes = await openapiTS(JSON.parse(await readFile(source, "utf8")), {
  alphabetize: true,
  // An object without named members may have any: say so, instead of "has none".
  transform: (schema) => (schema.type === "object" && !schema.properties && !schema.additionalProperties ? open : undefined),
});
const text = "// Generated from crates/engine/openapi.json by `npm run api`. Not edited by hand.\n\n" + astToString(nodes);

if (process.argv.includes("--check")) {
  const kept = await readFile(target, "utf8").catch(() => "");
  if (kept !== text) {
    console.error("src/api/schema.d.ts is stale: run `npm run api`");
    process.exit(1);
  }
} else {
  await writeFile(target, text);
}
