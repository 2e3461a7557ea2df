// Pictures of every page: two sizes, two themes, three languages, into the folder given.
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { launch } from "./browser.mjs";
import { seedAll } from "./places.mjs";
import { startProvider } from "./provider.mjs";
import { startService } from "./service.mjs";

const [binary, out, only] = process.argv.slice(2);
await mkdir(out, { recursive: true });
const provider = await startProvider();
const service = await startService(binary);
const browser = await launch();
const sizes = [[1100, 720], [900, 600]];
const themes = ["light", "dark"];
const langs = ["en", "zh-CN", "ja"];

async function page(size, theme, lang) {
  const context = await browser.newContext({ viewport: { width: size[0], height: size[1] }, colorScheme: theme, locale: lang === "en" ? "en-GB" : lang, timezoneId: process.env.TZ ?? "UTC" });
  context.setDefaultTimeout(180_000);
  const tab = await context.newPage();
  await tab.goto(`${service.ui}/#token=${service.token}`);
  await tab.waitForSelector("main");
  return { context, tab };
}
async function shot(tab, name, size, theme, lang) {
  await tab.waitForTimeout(350);
  await tab.screenshot({ path: path.join(out, `${name}.${size[0]}.${theme}.${lang}.png`) });
}
const wanted = (name) => !only || only.split(",").includes(name);

for (const theme of themes) for (const lang of langs) {
  const { context, tab } = await page(sizes[0], theme, lang);
  for (const step of ["agent", "provider", "skills", "training"]) {
    if (!wanted(`setup-${step}`)) continue;
    await tab.goto(`${service.ui}/#/setup/${step}`);
    if (step === "provider") await tab.waitForTimeout(1500);
    await shot(tab, `setup-${step}`, sizes[0], theme, lang);
  }
  await context.close();
}
const { places: PLACES, turns } = await seedAll(service, provider);
for (const size of sizes) for (const theme of themes) for (const lang of langs) {
  if (process.env.QUICK && `${size[0]} ${theme} ${lang}` !== process.env.QUICK) continue;
  const { context, tab } = await page(size, theme, lang);
  for (const [name, hash] of Object.entries(PLACES)) {
    if (!wanted(name)) continue;
    await tab.goto(`${service.ui}/${hash}`);
    if (name === "skills" || name === "skills-builtin") await tab.waitForSelector(".cm-content");
    if (name === "skills-effect" || name === "skills-history") await tab.locator("[role=tab]").nth(name === "skills-effect" ? 1 : 2).click();
    if (name === "skills-history") await tab.locator(".hist [aria-expanded]").first().click();
    if (name === "memory-search") await tab.fill("main [data-search]", "which postgres does ledgerline use?");
    if (name === "try") await tab.fill("main textarea", "rebase my branch and write the SQL migration");
    await shot(tab, name, size, theme, lang);
  }
  await context.close();
}
await browser.close();
await service.stop();
provider.stop();
console.log(`${turns} turns in the first session`);
