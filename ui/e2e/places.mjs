// Everything that has a picture: a service as after some weeks, and the address of each page in it.
import { seed, seedLearning, seedMemory } from "./seed.mjs";

export async function seedAll(service, provider) {
  const key = await seed(service, provider, { failing: true });
  await seedMemory(service, key);
  await seedLearning(service, key);
  const waiting = (await service.api("GET", "/skills-proposals?state=waiting"))[0].id;
  const { memories } = await service.api("GET", "/memory?limit=100");
  const lisbon = memories.find((one) => one.content.includes("Lisbon")).id;
  const turns = (await service.api("GET", "/turns?limit=50&session=db")).length;
  const places = {
    home: "#/home",
    conversations: "#/conversations/db?turn=1",
    taken: "#/conversations/list0?turn=1",
    side: "#/conversations/db?turn=1&view=side",
    raw: "#/conversations/db?turn=1&view=raw",
    try: "#/conversations/try",
    skills: "#/skills/pack-a-box",
    "skills-all": "#/skills",
    "skills-proposal": `#/skills/proposal/${waiting}`,
    "skills-effect": "#/skills/zebra-dates",
    "skills-history": "#/skills/zebra-dates",
    "skills-builtin": "#/skills/sql-query",
    memory: "#/memory",
    "memory-fact": `#/memory/${lisbon}`,
    "memory-search": `#/memory/${lisbon}`,
    training: "#/training",
    schedule: "#/schedule",
    connections: "#/connections",
    settings: "#/settings",
    "settings-provider": "#/settings/provider",
    "settings-skills": "#/settings/skills",
    "settings-window": "#/settings/window",
    "settings-logs": "#/settings/logs",
    "settings-diagnostics": "#/settings/diagnostics",
  };
  return { places, turns };
}
