// The window end to end in Chromium against the real service: every page, both themes, accessible; every flow a person
// takes. `METACLAW_BIN` names the program (the debug build if absent); `npm run build` first.
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { launch } from "./browser.mjs";
import { startHub } from "./hub.mjs";
import { startProvider } from "./provider.mjs";
import { seed, seedLearning, seedMemory } from "./seed.mjs";
import { say, startService } from "./service.mjs";

const binary = process.env.METACLAW_BIN ?? new URL("../../target/debug/metaclaw", import.meta.url).pathname;
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const provider = await startProvider();
const hub = await startHub();
const service = await startService(binary);
const browser = await launch();
const problems = [];
let passed = 0;

async function open({ theme = "light", lang = "en-GB", token = true, size = { width: 1100, height: 720 } } = {}) {
  const context = await browser.newContext({ viewport: size, colorScheme: theme, locale: lang });
  context.setDefaultTimeout(90_000);
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: service.ui });
  const tab = await context.newPage();
  tab.on("console", (message) => {
    if (message.type() === "error" && !/status of (401|404|409|422|502)|ERR_(CONNECTION_REFUSED|FAILED|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING)/.test(message.text())) problems.push(`console: ${message.text()}`);
  });
  tab.on("pageerror", (error) => problems.push(`page: ${error.message}`));
  tab.on("request", (request) => {
    if (!request.url().startsWith(service.ui) && !/^(data|blob):/.test(request.url())) problems.push(`left the machine: ${request.url()}`);
  });
  await tab.goto(token ? `${service.ui}/#token=${service.token}` : service.ui);
  return { tab, close: () => context.close() };
}
const at = (tab, hash) => tab.goto(`${service.ui}/${hash}`);

const only = process.argv[2] ? new RegExp(process.argv[2]) : null;

async function test(name, work) {
  if (only && !only.test(name)) return;
  const begun = Date.now();
  try {
    await work();
    passed++;
    console.log(`ok    ${name} (${Date.now() - begun} ms)`);
  } catch (error) {
    problems.push(`${name}: ${error.stack}`);
    console.log(`FAIL  ${name}\n${error.stack}`);
    if (process.env.METACLAW_UI_SHOTS) {
      const open = browser.contexts().flatMap((context) => context.pages());
      await open.at(-1)?.screenshot({ path: `${process.env.METACLAW_UI_SHOTS}/failed-${problems.length}.png` }).catch(() => {});
    }
  }
}
async function accessible(tab, where) {
  await tab.evaluate(axe);
  const found = await tab.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  const told = found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.target.join(" ")).join(" | ")}`);
  assert.deepEqual(told, [], where);
}
/** Nothing is wider than the window, and no text of a button is cut. */
async function fits(tab, where) {
  const wide = await tab.evaluate(() => {
    const out = [];
    if (document.documentElement.scrollWidth > innerWidth) out.push("the page scrolls sideways");
    for (const one of document.querySelectorAll("button, .btn, .chip, h1")) {
      const box = one.getBoundingClientRect();
      if (box.width > 0 && box.right > innerWidth + 1) out.push(`${one.tagName} “${one.textContent.trim().slice(0, 40)}” ends at ${Math.round(box.right)}`);
    }
    return out;
  });
  assert.deepEqual(wide, [], where);
}

try {
  await test("without a token the page asks for one, and the right one opens it", async () => {
    const { tab, close } = await open({ token: false });
    await tab.getByRole("heading", { name: "This page needs its token" }).waitFor();
    await accessible(tab, "token");
    await tab.getByLabel("Token").fill("wrong");
    await tab.getByRole("button", { name: "Open" }).click();
    await tab.getByRole("alert").waitFor();
    await tab.getByLabel("Token").fill(service.token);
    await tab.getByRole("button", { name: "Open" }).click();
    await tab.getByRole("heading", { name: /Which agent/ }).waitFor();
    await close();
  });

  await test("a model is fetched only after a yes, with its terms shown, its progress seen, and can be called off", async () => {
    await service.api("PUT", "/config/builtin.hub", { value: hub.url });
    const { tab, close } = await open();
    await at(tab, "#/setup/provider");
    await tab.getByLabel(/Qwen3 0.6B/).check();
    await tab.getByText(/a download of 639 MB from Hugging Face.*licence Apache-2.0/).waitFor();
    assert.deepEqual(hub.asked, [], "nothing is asked for before the yes");
    assert(await tab.getByRole("button", { name: "Continue" }).isDisabled(), "a model that is not here cannot answer");
    await accessible(tab, "setup model");
    await tab.getByRole("button", { name: "Fetch 639 MB" }).click();
    await tab.getByRole("progressbar").waitFor();
    await tab.waitForFunction(() => document.querySelector("progress").value > 0);
    await accessible(tab, "setup fetching");
    await tab.reload();
    await tab.getByRole("progressbar").waitFor();
    await tab.getByRole("button", { name: "Cancel" }).click();
    await tab.getByRole("button", { name: "Fetch 639 MB" }).waitFor();
    assert.equal((await service.api("GET", "/models")).fetching?.running ?? false, false);
    // The hub has another file by now: it is said, and nothing of it is kept.
    hub.become({ oid: "0".repeat(64) });
    await tab.getByRole("button", { name: "Fetch 639 MB" }).click();
    await tab.getByText(/has another Qwen3-0.6B-Q8_0.gguf by now/).waitFor();
    await accessible(tab, "setup refused");
    assert.deepEqual((await service.api("GET", "/models")).kept, []);
    // A file under its name that is no model: the live test says so instead of going on as if it were.
    await mkdir(path.join(service.home, "models"), { recursive: true });
    await writeFile(path.join(service.home, "models/qwen3-0.6b.gguf"), "GGUF");
    await tab.reload();
    await tab.getByText("on this computer").first().waitFor();
    await tab.getByLabel(/SmolLM2/).check();
    await tab.getByLabel(/Qwen3 0.6B/).check();
    await tab.locator("fieldset .bad").waitFor({ timeout: 60_000 });
    await service.api("DELETE", "/models/qwen3-0.6b");
    await tab.evaluate(() => localStorage.clear());
    await close();
  });

  await test("a service that is not set up leads through the first run, which can be left and resumed", async () => {
    const { tab, close } = await open();
    await tab.getByRole("heading", { name: /Which agent/ }).waitFor();
    assert(!(await tab.evaluate(() => location.href)).includes(service.token), "the token leaves the address");
    await accessible(tab, "setup agent");
    await tab.getByLabel("Hermes").check();
    await tab.getByRole("button", { name: "Continue" }).click();
    await tab.getByRole("heading", { name: /Where should answers/ }).waitFor();
    await tab.getByLabel(/Any other OpenAI/).check();
    await accessible(tab, "setup provider");
    await tab.getByRole("textbox", { name: "Address", exact: true }).fill(provider.url);
    await tab.getByLabel("Dialect").selectOption("openai-chat");
    await tab.getByLabel(/Model for/).fill("small-model");
    await tab.getByRole("button", { name: "Continue" }).click();
    await tab.getByRole("heading", { name: /The key for/ }).waitFor();
    await tab.getByLabel("Key", { exact: true }).fill("wrong");
    await tab.getByRole("button", { name: "Test the key" }).click();
    await tab.getByText(/401/).waitFor();
    await accessible(tab, "setup key");
    await tab.reload();
    await tab.getByText("Hermes").first().waitFor();
    assert.equal(await tab.getByLabel("Key", { exact: true }).inputValue(), "", "a key is never kept");
    await tab.getByLabel("Key", { exact: true }).fill("right");
    await tab.getByRole("button", { name: "Test the key" }).click();
    await tab.getByText(/A one-word test came back/).waitFor();
    let remembers = false;
    for (const heading of [/Skills:/, /Memory:/, /Training:/, /This will be written/]) {
      await tab.getByRole("button", { name: "Continue" }).click();
      await tab.getByRole("heading", { name: heading }).waitFor();
      await accessible(tab, `setup ${heading}`);
      if (String(heading).includes("Memory")) {
        await tab.getByLabel("Remember conversations").check();
        remembers = true;
      }
    }
    assert(remembers);
    await tab.getByText("memory.enabled:").first().waitFor();
    await tab.getByText("llm.api_base:").first().waitFor();
    assert.equal((await service.api("GET", "/setup")).configured, false, "nothing is written before the yes");
    await tab.getByRole("button", { name: "Write the change" }).click();
    await tab.getByRole("heading", { name: "Ready" }).waitFor();
    await tab.getByRole("link", { name: "Open Home" }).click();
    await tab.getByRole("heading", { name: /Running\./ }).waitFor();
    assert.equal((await service.api("GET", "/setup")).configured, true);
    assert.equal((await service.api("GET", "/config/memory.enabled")).value, true);
    await close();
  });

  // The state after the first run, whether it was walked through or not.
  const key = await seed(service, provider, { failing: true });
  await seedMemory(service, key);
  await seedLearning(service, key);
  const proposed = (await service.api("GET", "/skills-proposals?state=waiting"))[0].id;
  const remembered = async (words) => (await service.api("GET", "/memory?limit=1000")).memories.find((one) => one.content.includes(words));
  const lisbon = (await remembered("Lisbon")).id;
  const PAGES = ["home", "conversations", "conversations/db?turn=2", "conversations/db?turn=2&view=side", "conversations/db?turn=1&view=raw", "conversations/try", "skills", "skills/sql-query", "skills/zebra-dates", `skills/proposal/${proposed}`, "memory", `memory/${lisbon}`, "training", "schedule", "connections", "settings/general", "settings/provider", "settings/proxy", "settings/skills", "settings/window", "settings/logs", "settings/diagnostics", "setup/agent", "setup/provider"];
  for (const theme of ["light", "dark"]) {
    await test(`every page is accessible, ${theme}`, async () => {
      const { tab, close } = await open({ theme });
      const found = [];
      for (const page of PAGES) {
        await at(tab, `#/${page}`);
        await tab.locator("main h1").first().waitFor();
        if (page.startsWith("skills/") && !page.includes("proposal")) await tab.locator(".cm-content").waitFor();
        await tab.waitForTimeout(250);
        await accessible(tab, page).catch((error) => found.push(`${page}: ${error.actual}`));
      }
      assert.deepEqual(found, []);
      await close();
    });
  }
  for (const lang of ["en-GB", "zh-CN", "ja-JP"]) {
    await test(`every page fits into 900×600, ${lang}`, async () => {
      const { tab, close } = await open({ lang, size: { width: 900, height: 600 } });
      assert.equal(await tab.evaluate(() => document.documentElement.lang), { "en-GB": "en", "ja-JP": "ja" }[lang] ?? lang);
      for (const page of PAGES) {
        await at(tab, `#/${page}`);
        await tab.locator("main h1").first().waitFor();
        await tab.waitForTimeout(120);
        await fits(tab, page);
      }
      await close();
    });
  }

  await test("home tells the day, and a new turn shows up by itself", async () => {
    const { tab, close } = await open();
    const before = Number(/(\d+) turns? today/.exec(await tab.getByRole("heading", { level: 1 }).filter({ hasText: "today" }).textContent())[1]);
    await say(service, key, "live", [{ role: "user", content: "explain this regular expression" }]);
    await tab.getByRole("heading", { name: `Running. ${before + 1} turns today` }).waitFor();
    await close();
  });

  await test("the mode is set and taken back", async () => {
    const { tab, close } = await open();
    await tab.getByRole("radio", { name: "Skills only" }).click();
    await tab.getByRole("radio", { name: "Skills only", checked: true }).waitFor();
    assert.equal((await service.api("GET", "/config/mode")).value, "skills_only");
    await tab.getByRole("button", { name: "Undo" }).click();
    await tab.getByRole("radio", { name: "Auto", checked: true }).waitFor();
    await close();
  });

  await test("a turn shows what was added, side by side and byte for byte", async () => {
    const { tab, close } = await open();
    await at(tab, "#/conversations/db?turn=1");
    await tab.getByText("Added by MetaClaw").first().waitFor();
    await tab.getByText("git-history").first().waitFor();
    await tab.getByText("CREATE INDEX CONCURRENTLY").first().waitFor();
    await tab.getByRole("tab", { name: "Side by side" }).click();
    await tab.getByText("same bytes").first().waitFor();
    const block = await tab.locator(".hand pre").first().textContent();
    await tab.getByRole("tab", { name: "Raw bytes" }).click();
    await tab.getByRole("radio", { name: "As passed on" }).click();
    await tab.getByText("metaclaw-context").first().waitFor();
    assert((await tab.locator("pre.body").textContent()).includes(JSON.stringify(block).slice(1, -1)), "the hand holds the very bytes");
    await tab.getByRole("button", { name: "Turn after" }).click();
    await tab.getByText("Turn 2 of 3").first().waitFor();
    await close();
  });

  await test("sessions are found by words and filtered by agent", async () => {
    const { tab, close } = await open();
    await at(tab, "#/conversations");
    await tab.locator("[data-row]").first().waitFor();
    await tab.keyboard.press("/");
    await tab.keyboard.type("landlord");
    await tab.waitForFunction(() => document.querySelectorAll("[data-row]").length === 1);
    await tab.getByLabel("Search sessions").fill("");
    await tab.getByRole("button", { name: "All agents" }).click();
    await tab.getByRole("menuitem", { name: "OpenClaw" }).click();
    await tab.waitForFunction(() => [...document.querySelectorAll("[data-row]")].every((row) => row.textContent.includes("OpenClaw")));
    await close();
  });

  await test("keys move between pages and rows, and can be switched off", async () => {
    const { tab, close } = await open();
    await tab.locator("main h1").waitFor();
    await tab.keyboard.press("g");
    await tab.keyboard.press("c");
    await tab.locator("[data-row]").first().waitFor();
    await tab.keyboard.press("j");
    await tab.keyboard.press("j");
    await tab.keyboard.press("k");
    await tab.keyboard.press("Enter");
    await tab.locator("[data-row][aria-current=true]").waitFor();
    await tab.keyboard.press("?");
    const sheet = tab.getByRole("dialog", { name: "Keys" });
    await sheet.waitFor();
    await accessible(tab, "keys");
    await tab.getByLabel("Single-key shortcuts").uncheck();
    await tab.keyboard.press("Escape");
    await sheet.waitFor({ state: "detached" });
    await tab.keyboard.press("g");
    await tab.keyboard.press("h");
    await tab.waitForTimeout(100);
    assert.match(tab.url(), /conversations/);
    await close();
  });

  await test("words are tried without being sent", async () => {
    const { tab, close } = await open();
    await at(tab, "#/conversations/try");
    const before = (await service.api("GET", "/turns")).length;
    await tab.getByLabel("Your words").fill("rebase my branch and write the SQL migration");
    await tab.getByText("Would be added").first().waitFor();
    await tab.getByText("## Skill: git-history").waitFor();
    assert.equal((await service.api("GET", "/turns")).length, before);
    await close();
  });

  await test("a skill is switched off and on again by undo", async () => {
    const { tab, close } = await open();
    await at(tab, "#/skills/pack-a-box");
    await tab.getByRole("button", { name: "Switch off" }).click();
    await tab.getByRole("button", { name: "Use again" }).waitFor();
    await tab.getByRole("button", { name: "Undo" }).click();
    await tab.getByRole("button", { name: "Switch off" }).waitFor();
    await close();
  });

  await test("a skill is edited with findings as one types, saved, and taken back", async () => {
    const { tab, close } = await open();
    await at(tab, "#/skills/pack-a-box");
    await tab.locator(".cm-content").click();
    await tab.keyboard.press("Control+End");
    await tab.keyboard.type("3. Write FRAGILE on it.");
    await tab.getByLabel(/^Description/).fill("");
    await tab.locator(".lint .bad").waitFor();
    assert(await tab.getByRole("button", { name: /^Save/ }).isDisabled(), "a file with errors is not saved");
    await tab.getByLabel(/^Description/).fill("Packs a box. Use when: it is fragile.");
    await tab.getByText("The file is valid.").waitFor();
    await tab.keyboard.press("Control+s");
    await tab.getByText("Changed pack-a-box.").first().waitFor();
    const { text } = await service.api("GET", "/skills/pack-a-box");
    assert(text.includes("3. Write FRAGILE on it.") && text.includes('description: "Packs a box. Use when: it is fragile."'), text);
    await tab.getByRole("tab", { name: "History" }).click();
    await tab.getByRole("tabpanel").getByText("Changed pack-a-box.").waitFor();
    await accessible(tab, "history");
    await tab.getByRole("tabpanel").getByRole("button", { name: "Undo" }).click();
    await tab.getByText("Taken back: Changed pack-a-box.").first().waitFor();
    assert(!(await service.api("GET", "/skills/pack-a-box")).text.includes("FRAGILE"));
    await close();
  });

  await test("a skill is written, tested with a query, removed, and brought back", async () => {
    const { tab, close } = await open();
    await at(tab, "#/skills");
    await tab.getByRole("button", { name: "New" }).click();
    await tab.getByLabel(/^Name/).fill("water-the-plants");
    await tab.getByLabel(/^Description/).fill("Waters houseplants. Use when the user asks about watering plants.");
    await tab.locator(".cm-content").click();
    await tab.keyboard.type("# Water\n\nFeel the soil first. Water deeply when the top finger’s width is dry, and let the rest drain off.\n");
    await tab.getByText("The file is valid.").waitFor();
    await tab.getByRole("button", { name: /^Save/ }).click();
    await tab.waitForURL(/skills\/water-the-plants/);
    await tab.getByRole("button", { name: "Remove" }).waitFor();
    await tab.getByText("Feel the soil first.").first().waitFor();
    await tab.getByLabel("Query to test").fill("how often should I be watering my plants?");
    await tab.locator(".hits .good").first().waitFor();
    await tab.getByRole("button", { name: "Remove" }).click();
    await tab.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    await tab.waitForFunction(() => !location.hash.includes("water"));
    await tab.getByRole("button", { name: "Undo" }).click();
    await tab.getByRole("link", { name: /water-the-plants/ }).waitFor();
    await close();
  });

  await test("skills stand with their use and effect on one axis, and a learned one tells its evidence", async () => {
    const { tab, close } = await open();
    await at(tab, "#/skills/zebra-dates");
    const measured = (await service.api("GET", "/skills-effects")).find((one) => one.name === "zebra-dates");
    const row = tab.locator("[data-row]").filter({ hasText: "zebra-dates" });
    await row.getByText(String(measured.uses), { exact: true }).waitFor();
    await row.getByRole("img", { name: /effect [+−][\d.]+, 95 % interval/ }).waitFor();
    await tab.getByText(/On trial since/).waitFor();
    await tab.getByRole("tab", { name: "Effect" }).click();
    await tab.getByText(/good turns in 100, (but anything )?between/).waitFor();
    const cells = await tab.locator("[role=tabpanel] tbody td.num").allTextContents();
    assert.deepEqual([cells[0], cells[1], cells[3], cells[4]].map(Number), [measured.uses, measured.wins, measured.control, measured.control_wins]);
    await accessible(tab, "effect");
    await tab.getByRole("tab", { name: "History" }).click();
    await tab.getByRole("button", { name: "Changes" }).first().click();
    await tab.getByText("Sort them, the newest first.").waitFor();
    await accessible(tab, "texts");
    await close();
  });

  await test("a skill is put on trial from the list, taken out, and brought back", async () => {
    const { tab, close } = await open();
    await at(tab, "#/skills/zebra-dates");
    await tab.getByRole("tab", { name: "History" }).click();
    await tab.getByRole("button", { name: "Take it out" }).click();
    await tab.getByText("zebra-dates is out of use").waitFor();
    const state = async () => (await service.api("GET", "/skills-learning")).skills.find((one) => one.name === "zebra-dates").state;
    assert.equal(await state(), "retired");
    await tab.locator(".group").getByText("Retired").waitFor();
    await tab.getByRole("button", { name: "Bring back" }).click();
    await tab.getByText(/On trial since/).waitFor();
    assert.equal(await state(), "trial");
    await close();
  });

  await test("a proposal is read with its evidence, edited, and started as a trial, which undo takes back", async () => {
    const { tab, close } = await open();
    await at(tab, "#/skills");
    await tab.getByRole("link", { name: /check-timezone-in-cron/ }).click();
    await tab.getByRole("heading", { name: "check-timezone-in-cron" }).waitFor();
    await tab.getByText("It fires an hour late again").waitFor();
    await tab.getByText("Checks passed").waitFor();
    await tab.getByRole("button", { name: "Edit first" }).click();
    await tab.locator(".cm-content").click();
    await tab.keyboard.press("Control+End");
    await tab.keyboard.type("Say when summer time ends.");
    await tab.getByText("The file is valid.").waitFor();
    await accessible(tab, "proposal edit");
    await tab.getByRole("button", { name: "Save" }).click();
    await tab.getByText("Say when summer time ends.").waitFor();
    await tab.getByLabel("For every agent, not only OpenClaw").check();
    await tab.getByRole("button", { name: "Start trial" }).click();
    await tab.waitForURL(/skills\/check-timezone-in-cron/);
    await tab.getByText(/On trial since/).waitFor();
    const { text } = await service.api("GET", "/skills/check-timezone-in-cron");
    assert(text.includes("Say when summer time ends."), text);
    assert.equal((await service.api("GET", "/skills-learning")).skills.find((one) => one.name === "check-timezone-in-cron").agent, "");
    await tab.getByRole("button", { name: "Undo" }).click();
    await tab.getByText("On trial since").waitFor({ state: "detached" });
    assert.equal((await service.api("GET", "/skills-learning")).skills.find((one) => one.name === "check-timezone-in-cron").state, "retired");
    await close();
  });

  await test("skills go out as a zip and come in as proposals, which are rejected after asking", async () => {
    const { tab, close } = await open();
    await at(tab, "#/skills");
    const zip = `${service.home}/out.zip`;
    await tab.getByRole("button", { name: "Export…" }).click();
    await tab.getByLabel("Path").fill(zip);
    await accessible(tab, "skills export");
    await tab.getByRole("button", { name: "Write it" }).click();
    await tab.getByText(/^Wrote .*pack-a-box/).waitFor();
    await tab.getByRole("button", { name: "Import…" }).click();
    await tab.getByLabel("Path").fill("nowhere");
    await tab.getByRole("button", { name: "Look at it" }).click();
    await tab.getByRole("alert").getByText(/absolute/).waitFor();
    await service.api("DELETE", "/skills/pack-a-box");
    await tab.getByLabel("Path").fill(zip);
    await tab.getByRole("button", { name: "Look at it" }).click();
    const row = tab.getByRole("group", { name: "Proposals" }).getByRole("link", { name: /pack-a-box/ });
    await row.waitFor();
    if (await tab.getByRole("dialog").isVisible()) await tab.keyboard.press("Escape");
    await row.click();
    await tab.getByText("From an import").waitFor();
    await tab.getByRole("button", { name: "Reject" }).click();
    await accessible(tab, "reject");
    await tab.getByRole("dialog").getByRole("button", { name: "Reject" }).click();
    await tab.getByText("pack-a-box is rejected").waitFor();
    await row.waitFor({ state: "detached" });
    await service.api("POST", "/skills", { text: "---\nname: pack-a-box\ndescription: Packs a box. Use when something fragile has to be packed.\n---\n\n# Pack a box\n\n1. Heavy things first.\n2. Fill every gap.\n" });
    await close();
  });

  await test("unsaved words of a skill are not lost by a click", async () => {
    const { tab, close } = await open();
    await at(tab, "#/skills/pack-a-box");
    await tab.locator(".cm-content").click();
    await tab.keyboard.type("x");
    const asked = new Promise((done) => tab.once("dialog", (dialog) => dialog.dismiss().then(() => done(dialog.message()))));
    await tab.getByRole("link", { name: "Home" }).click();
    assert.match(await asked, /not saved/);
    assert.match(tab.url(), /pack-a-box/);
    tab.on("dialog", (dialog) => void dialog.accept());
    await close();
  });

  await test("memory is searched as recall would, and shows the very text a turn would get", async () => {
    const { tab, close } = await open();
    await at(tab, "#/memory");
    await tab.locator("[data-row]").first().waitFor();
    await tab.keyboard.press("/");
    await tab.keyboard.type("which postgres does ledgerline use?");
    await tab.getByText(/^\d+ of \d+, in .+, \d+ of 800 tokens$/).waitFor();
    const would = await service.api("POST", "/memory/search", { text: "which postgres does ledgerline use?", as_turn: true });
    await tab.locator("mark").first().waitFor();
    const rows = await tab.locator("[data-row]").allTextContents();
    would.hits.forEach((hit, i) => assert(rows[i].includes(hit.content.replace(/\s+/g, " ").slice(0, 60)), rows[i]));
    await accessible(tab, "memory search");
    await tab.getByRole("button", { name: "Show the text" }).click();
    assert.equal(await tab.locator("dialog pre").textContent(), would.block);
    await accessible(tab, "memory text");
    await tab.keyboard.press("Escape");
    await tab.getByRole("radio", { name: "Decisions" }).click();
    await tab.waitForFunction(() => [...document.querySelectorAll("[data-row] .tag")].every((tag) => tag.textContent === "Decision"));
    await tab.getByLabel("Search as recall would").fill("zzzz qqqq");
    await tab.getByText("Nothing fits these words").waitFor();
    await close();
  });

  await test("a fact shows who said it when, and each version on one line of time", async () => {
    const { tab, close } = await open();
    await at(tab, `#/memory/${lisbon}`);
    await tab.getByRole("heading", { name: "I live in Lisbon." }).waitFor();
    await tab.getByRole("img", { name: /Hamburg: true from 3 Mar.* to 12 Jul.*Lisbon: true since 18 Nov/ }).waitFor();
    await tab.getByText("Replaced “Berlin” as of 18 Nov").waitFor();
    await tab.getByRole("button", { name: "Show as table" }).click();
    assert.equal(await tab.locator("aside table tbody tr").count(), 3);
    await accessible(tab, "memory table");
    await tab.locator("aside").getByRole("link", { name: "OpenClaw" }).first().click();
    await tab.waitForURL(/conversations\/db/);
    await close();
  });

  await test("a memory is pinned, edited and set aside, each taken back by undo", async () => {
    const { tab, close } = await open();
    const { id } = await remembered("pgcli");
    const now = () => service.api("GET", `/memory/${id}`);
    await at(tab, `#/memory/${id}`);
    await tab.getByRole("button", { name: "Pin", exact: true }).click();
    await tab.getByRole("button", { name: "Pin", exact: true, pressed: true }).waitFor();
    assert.equal((await now()).pinned, true);
    await tab.getByRole("button", { name: "Undo" }).click();
    await tab.getByRole("button", { name: "Pin", exact: true, pressed: false }).waitFor();
    await tab.getByRole("button", { name: "Edit" }).click();
    await tab.getByLabel("In your words").fill("I prefer pgcli over psql, always.");
    await tab.getByLabel("Labels, separated by commas").fill("tools, sql");
    await accessible(tab, "memory edit");
    await tab.getByRole("button", { name: "Save" }).click();
    await tab.getByRole("heading", { name: "I prefer pgcli over psql, always." }).waitFor();
    assert.deepEqual((await now()).tags, ["tools", "sql"]);
    await tab.getByRole("button", { name: "Undo" }).click();
    await tab.getByRole("heading", { name: "I prefer pgcli over psql.", exact: true }).waitFor();
    assert.deepEqual((await now()).tags, []);
    await tab.getByRole("button", { name: "No longer true" }).click();
    await tab.getByRole("button", { name: "True again" }).waitFor();
    assert.equal((await now()).status, "archived");
    await tab.getByRole("button", { name: "Undo" }).click();
    await tab.getByRole("button", { name: "No longer true" }).waitFor();
    assert.equal((await now()).status, "active");
    await close();
  });

  await test("something is remembered by hand and forgotten for good, after asking", async () => {
    const { tab, close } = await open();
    await at(tab, "#/memory");
    await tab.getByRole("button", { name: "Remember…" }).click();
    await tab.getByLabel("In your words").fill("The spare key hangs in the aviary.");
    await tab.getByRole("dialog").getByRole("button", { name: "Remember…" }).click();
    await tab.getByRole("heading", { name: "The spare key hangs in the aviary." }).waitFor();
    await tab.getByRole("button", { name: "Forget" }).last().click();
    const ask = tab.getByRole("dialog", { name: "Forget this for good?" });
    await ask.waitFor();
    await accessible(tab, "memory forget");
    assert.equal(await tab.evaluate(() => document.activeElement.textContent.trim()), "Cancel", "what cannot be undone is not one key away");
    await ask.getByRole("button", { name: "Forget for good" }).click();
    await tab.getByText(/^Forgotten: 1 facts/).waitFor();
    assert.equal(await remembered("aviary"), undefined);
    await close();
  });

  await test("what came from outside is held back until it is allowed, or forgotten", async () => {
    const { tab, close } = await open();
    await at(tab, "#/memory");
    await tab.getByRole("link", { name: /1 memory held back/ }).waitFor();
    await tab.getByRole("button", { name: "Allow" }).click();
    await tab.getByText("1 held back").waitFor({ state: "detached" });
    const stats = await service.api("GET", "/memory/stats");
    assert.equal(stats.quarantined, 0);
    await say(service, key, "board2", [{ role: "user", content: "Read the notice board in the hall once more" }], "other");
    await service.api("POST", "/memory/maintain");
    await at(tab, "#/home");
    await at(tab, "#/memory");
    if ((await service.api("GET", "/memory/stats")).quarantined > 0) {
      await tab.locator("details").getByRole("button", { name: "Forget" }).click();
      await tab.getByRole("dialog").getByRole("button", { name: "Forget for good" }).click();
      await tab.getByText(/^Forgotten:/).waitFor();
      assert.equal((await service.api("GET", "/memory/stats")).quarantined, 0);
    }
    await close();
  });

  await test("memory is exported, a scope is erased after asking, and the export brings it back", async () => {
    const { tab, close } = await open();
    const line = JSON.stringify({ content: "The piano is tuned in May.", scope_id: "user:ann", created_at: "2026-05-01T08:00:00Z", importance: 0.7, confidence: 1, status: "active" });
    await service.api("POST", "/memory/import", { path: "", text: line });
    await at(tab, "#/memory");
    await tab.getByRole("button", { name: "More for user:ann" }).click();
    const [download] = await Promise.all([tab.waitForEvent("download"), tab.getByRole("menuitem", { name: "Export this scope" }).click()]);
    const file = await download.path();
    assert((await readFile(file, "utf8")).includes("The piano is tuned in May."));
    await tab.getByRole("button", { name: "More for user:ann" }).click();
    await tab.getByRole("menuitem", { name: "Erase this scope…" }).click();
    await accessible(tab, "memory erase");
    await tab.getByRole("button", { name: "Erase for good" }).click();
    await tab.getByRole("button", { name: "More for user:ann" }).waitFor({ state: "detached" });
    assert.deepEqual((await service.api("GET", "/memory?scope=user:ann")).memories, []);
    await tab.locator("input[type=file]").setInputFiles({ name: "memory.jsonl", mimeType: "application/x-ndjson", buffer: Buffer.from(line.replace("piano", "organ")) });
    await tab.getByText(/1 memory taken in/).waitFor();
    await tab.getByRole("button", { name: "More for user:ann" }).waitFor();
    await service.api("DELETE", `/memory/scopes/${encodeURIComponent("user:ann")}`);
    await close();
  });

  await test("a list of 10,000 memories draws a screenful, reads on, and is searched at once", async () => {
    const { tab, close } = await open();
    const now = Date.now();
    const one = (n) => ({ id: `m${n}`, scope: "default", kind: "semantic", status: "active", content: `Fact number ${n}`, quote: "", speaker: "user", origin: "import", session: "", turn: 0, turn_id: null, pinned: false, importance: 0.5, confidence: 1, tags: [], valid_from_ms: now - n * 60_000, valid_to_ms: null, recorded_ms: now - n * 60_000, updated_ms: now, expires_ms: null, superseded_by: null });
    await tab.route("**/api/v1/memory?*", (route) => {
      const url = new URL(route.request().url());
      if (url.searchParams.get("status") === "quarantined") return route.fulfill({ json: { memories: [], next: null } });
      const from = Number(url.searchParams.get("before") ?? 0);
      const limit = Number(url.searchParams.get("limit"));
      const end = Math.min(10_000, from + limit);
      return route.fulfill({ json: { memories: Array.from({ length: end - from }, (_, i) => one(from + i)), next: end < 10_000 ? end : null } });
    });
    await at(tab, "#/memory");
    await tab.locator("[data-row]").first().waitFor();
    await tab.waitForFunction(
      () => {
        const box = document.querySelector(".vl");
        box.scrollTop = box.scrollHeight;
        return box.scrollHeight >= 10_000 * 52;
      },
      null,
      { polling: 50, timeout: 60_000 },
    );
    assert((await tab.locator("[data-row]").count()) < 60);
    const jump = await tab.evaluate(async () => {
      const box = document.querySelector(".vl");
      const times = [];
      for (let i = 0; i < 40; i++) {
        const begun = performance.now();
        box.scrollTop = (box.scrollHeight / 40) * ((i * 17) % 40);
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        times.push(performance.now() - begun);
      }
      return times.sort((a, b) => a - b)[37];
    });
    console.log(`      p95 of a jump ${jump.toFixed(0)} ms`);
    await close();
  });

  await test("a setting is refused with the reason, written, and taken back; comments stay", async () => {
    const { tab, close } = await open();
    await at(tab, "#/settings/skills");
    const file = (await service.api("GET", "/config")).path;
    const before = await readFile(file, "utf8");
    const field = tab.getByLabel("skills.top_k", { exact: true });
    await field.fill("many");
    await tab.getByText("This is no number.").waitFor();
    await field.fill("4");
    await field.press("Enter");
    await tab.getByText("Written: skills.top_k").waitFor();
    const now = await readFile(file, "utf8");
    assert(now.includes("top_k: 4") && now.includes("#"), now);
    await tab.getByRole("button", { name: "Undo" }).click();
    await tab.waitForFunction(() => document.querySelector("[id='key-skills.top_k'] input").value === "6");
    assert.equal((await readFile(file, "utf8")).includes("top_k: 4"), false);
    assert.equal(before.split("\n").filter((line) => line.includes("#")).every((line) => now.includes(line)), true);
    await close();
  });

  await test("the key of the provider is masked until shown, and the provider is tested live", async () => {
    const { tab, close } = await open();
    await at(tab, "#/settings/provider");
    const row = tab.locator("[id='key-llm.api_key']");
    await row.waitFor();
    assert(!(await tab.content()).includes(">right<"));
    await row.getByRole("button", { name: "Show" }).click();
    await tab.waitForFunction(() => document.querySelector("[id='key-llm.api_key'] input").value === "right");
    await tab.getByRole("button", { name: "Test it" }).click();
    await tab.getByText(/A one-word test came back/).waitFor();
    await close();
  });

  await test("language and theme are chosen and kept", async () => {
    const { tab, close } = await open();
    await at(tab, "#/settings/window");
    await tab.getByLabel("Language").selectOption("ja");
    await tab.getByRole("radio", { name: "暗い" }).click();
    await tab.reload();
    await tab.getByRole("heading", { name: "このウィンドウ" }).waitFor();
    assert.deepEqual(await tab.evaluate(() => [document.documentElement.lang, document.documentElement.dataset.theme]), ["ja", "dark"]);
    await close();
  });

  await test("diagnostics hold no secret", async () => {
    const { tab, close } = await open();
    await at(tab, "#/settings/diagnostics");
    const [download] = await Promise.all([tab.waitForEvent("download"), tab.getByRole("button", { name: "Save diagnostics" }).click()]);
    const text = await readFile(await download.path(), "utf8");
    assert(text.includes('"checks"') && !text.includes(key) && !text.includes('"right"'));
    await close();
  });

  await test("a list of 100,000 sessions draws a screenful and filters at once", async () => {
    const { tab, close } = await open();
    const now = Date.now();
    await tab.route("**/api/v1/sessions?*", (route) => {
      const url = new URL(route.request().url());
      const limit = Number(url.searchParams.get("limit"));
      const before = Number(url.searchParams.get("before_ms") ?? now);
      const from = Math.round((now - before) / 60_000);
      const sessions = Array.from({ length: from >= 100_000 ? 0 : 100_000 - from }, (_, i) => ({ id: `s${from + i + 1}`, agent: "openclaw", started_ms: now, last_ms: now - (from + i + 1) * 60_000, turns: 3, requests: 3, title: `Session number ${from + i + 1}`, private: false }));
      return route.fulfill({ json: sessions.slice(0, Math.max(limit, 100_000)) });
    });
    await at(tab, "#/conversations");
    await tab.getByText("Session number 1", { exact: true }).waitFor();
    assert((await tab.locator("[data-row]").count()) < 60);
    const scroll = await tab.evaluate(async () => {
      const box = document.querySelector(".vl");
      const times = [];
      for (let i = 0; i < 40; i++) {
        const begun = performance.now();
        box.scrollTop = (box.scrollHeight / 40) * i;
        await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        times.push(performance.now() - begun);
      }
      return times.sort((a, b) => a - b)[37];
    });
    assert(scroll < 400, `a jump takes ${scroll} ms`);
    const filter = await tab.evaluate(async () => {
      const field = document.querySelector("[data-search]");
      const begun = performance.now();
      field.value = "number 99999";
      field.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      return performance.now() - begun;
    });
    await tab.waitForFunction(() => document.querySelectorAll("[data-row]").length === 1);
    console.log(`      p95 of a jump ${scroll.toFixed(0)} ms, a filter ${filter.toFixed(0)} ms`);
    await close();
  });

  await test("when the service stops the page says so, keeps what it knew, and comes back", async () => {
    const { tab, close } = await open();
    await tab.getByRole("heading", { name: /turns today/ }).waitFor();
    await tab.route("**/api/**", (route) => route.abort());
    await service.api("POST", "/restart");
    await tab.getByRole("heading", { name: /does not answer/ }).waitFor();
    await tab.getByText(/as of \d\d:\d\d/).waitFor();
    await accessible(tab, "unreachable");
    await tab.unroute("**/api/**");
    // A restart makes a new token.
    await tab.getByLabel("Token").fill(await service.currentToken());
    await tab.getByRole("button", { name: "Open" }).click();
    await tab.getByRole("heading", { name: /Running\./ }).waitFor();
    await close();
  });
} finally {
  await browser.close();
  await service.stop();
  provider.stop();
  hub.stop();
}
console.log(`${passed} passed, ${problems.length} problems`);
if (problems.length > 0) {
  console.error(problems.join("\n"));
  process.exit(1);
}
