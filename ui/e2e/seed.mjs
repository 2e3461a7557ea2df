// Conversations, skills and settings as after a morning's work.
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { say } from "./service.mjs";

const TALKS = [
  ["db", "openclaw", ["The migration 0042_add_invoice_index.sql locks the invoices table in staging. Rewrite the SQL so it does not, then rebase the branch onto main. Don’t push.", "Good. Open the PR as a draft and write the pull request description.", "Which index does this slow SQL query use?"]],
  ["bug", "other", ["Debug this flaky test in the settlement worker, it fails every third run", "Add a regression test for it"]],
  ["mail", "other", ["Write a short email to the landlord about the broken heating"]],
  ["chart", "openclaw", ["Which chart would show that orders fell after March?"]],
  ["trip", "other", ["hello"]],
];

export async function seed(service, provider, { failing = false } = {}) {
  await service.api("POST", "/setup", { answers: { provider: "custom", base_url: provider.url, model: "small-model", api_key: "right", dialect: "openai-chat" } });
  const { value: key } = await service.api("GET", "/config/proxy.api_key?reveal=true");
  for (const [session, agent, words] of TALKS) {
    const messages = [{ role: "system", content: "You are a careful assistant. ".repeat(40) }];
    for (const word of words) {
      messages.push({ role: "user", content: word });
      const content = await say(service, key, session, messages, agent);
      messages.push({ role: "assistant", content });
    }
  }
  if (failing) await say(service, key, "fails", [{ role: "user", content: "please fail" }]);
  await mkdir(path.join(service.home, "skills/pack-a-box"), { recursive: true });
  await writeFile(path.join(service.home, "skills/pack-a-box/SKILL.md"), "---\nname: pack-a-box\ndescription: Packs a box. Use when something fragile has to be packed.\n---\n\n# Pack a box\n\n1. Heavy things first.\n2. Fill every gap.\n");
  for (let tries = 0; tries < 100; tries++) {
    const { skills } = await service.api("GET", "/skills");
    if (skills.some((one) => one.name === "pack-a-box")) break;
    await new Promise((done) => setTimeout(done, 50));
  }
  return key;
}
