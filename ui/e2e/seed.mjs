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

/** What an older install knew: the same facts said again and otherwise over a year. */
const KNOWN = [
  ["2026-03-03", "I live in Hamburg."],
  ["2026-07-12", "I live in Berlin."],
  ["2026-11-18", "I live in Lisbon."],
  ["2026-06-02", "I prefer pgcli over psql."],
  ["2026-09-03", "Never hold ACCESS EXCLUSIVE locks longer than 2 s in migrations."],
  ["2026-10-09", "The read replicas of ledgerline are in Osaka and Frankfurt."],
  ["2026-11-24", "The staging database of ledgerline stays on PostgreSQL 15 until January."],
  ["2026-11-18", "ledgerline runs on PostgreSQL 16."],
];

/** Memory as after some months: facts with versions, things said today, something that came from outside. */
export async function seedMemory(service, key) {
  await service.api("PUT", "/config/memory.enabled", { value: true });
  const line = ([day, content]) => JSON.stringify({ content, scope_id: "default", source_session_id: "db", created_at: `${day}T09:12:00Z`, importance: 0.7, confidence: 0.9, status: "active" });
  await service.api("POST", "/memory/import", { path: "", text: KNOWN.map(line).join("\n") });
  await say(service, key, "release", [{ role: "user", content: "We decided to use logical replication for the upgrade. I prefer short answers." }]);
  await say(service, key, "board", [{ role: "user", content: "What does the notice board say?" }], "other");
  await service.api("POST", "/memory/maintain");
}

const until = async (what, work) => {
  for (let tries = 0; tries < 400; tries++) {
    const found = await work();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`it did not happen: ${what}`);
};
const DONE = { "x-session-done": "true" };

/** A session with a correction, ended: what skills are learned from. */
async function corrected(service, key, session, first, then) {
  const messages = [{ role: "user", content: first }];
  messages.push({ role: "assistant", content: await say(service, key, session, messages) });
  await say(service, key, session, [...messages, { role: "user", content: then }], "openclaw", DONE);
}

/** Skills as after a week of learning: one on trial that was used and left out, one proposed that waits for a yes. */
export async function seedLearning(service, key, { tries = 10 } = {}) {
  await service.api("PUT", "/config/skills.control_share", { value: 0.5 });
  // Changed habits make the service look for a model to ask at once.
  await service.api("PUT", "/config/skills.evolution_every_n_turns", { value: 9 });
  await corrected(service, key, "zebras", "List the zebras with their dates.", "No, that's wrong. Write all zebra dates as year, month and day.");
  const on = async (state) => (await service.api("GET", "/skills-learning")).skills.some((one) => one.name === "zebra-dates" && one.state === state);
  await until("zebra-dates is on trial", () => on("trial"));
  for (let n = 0; n < tries; n++) {
    const messages = [{ role: "user", content: "Make a zebra list that has zebra dates." }];
    messages.push({ role: "assistant", content: await say(service, key, `list${n}`, messages) });
    const shown = (await until("a turn of the list", async () => (await service.api("GET", `/turns?session=list${n}`))[0])).additions.some((one) => one.id === "zebra-dates");
    await say(service, key, `list${n}`, [...messages, { role: "user", content: shown || n % 3 === 0 ? "Thanks, perfect." : "No, that's wrong. Write all zebra dates as year, month and day." }], "openclaw", DONE);
  }
  await service.api("PUT", "/config/skills.review", { value: true });
  await corrected(service, key, "timer", "My cron job fires at 9, write the line.", "No, that's wrong. It fires an hour late again, the host is on UTC.");
  await until("a proposal waits", async () => (await service.api("GET", "/skills-proposals?state=waiting")).some((one) => one.name === "check-timezone-in-cron"));
}

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
