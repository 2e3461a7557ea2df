// An event as one sentence with a mark. What the service says itself stays in its language.
import type { ApiEvent } from "../backend";
import { list, t } from "../i18n/index.svelte";
import type { IconName } from "../parts/Icon.svelte";
import { href } from "./router.svelte";

export interface Said {
  icon: IconName;
  text: string;
  /** The language, where it is not the page's. */
  lang?: "en";
  href?: string;
}

const words = (value: unknown): string[] => (Array.isArray(value) ? value.filter((one): one is string => typeof one === "string") : []);
const word = (value: unknown): string => (typeof value === "string" ? value : "");

export function sentence(event: ApiEvent): Said {
  const data: Record<string, unknown> = event.data;
  switch (event.kind) {
    case "service_started":
      return { icon: "play", text: t("ev_started") };
    case "service_stopping":
      return { icon: "off", text: t("ev_stopping") };
    case "config_changed": {
      const keys = words(data["keys"]);
      return { icon: "gear", text: keys.length > 0 ? t("ev_config", { keys: list(keys) }) : t("ev_config_read"), href: href("settings") };
    }
    case "config_invalid":
      return { icon: "alert", text: t("ev_config_invalid", { problem: word(data["problem"]) }), href: href("settings", ["diagnostics"]) };
    case "skills_changed": {
      if (word(data["message"])) {
        const first = words(data["names"])[0];
        return { icon: "skill", text: word(data["message"]), lang: "en", ...(first ? { href: href("skills", [first]) } : {}) };
      }
      const names = [...words(data["added"]), ...words(data["changed"]), ...words(data["removed"])];
      return { icon: "skill", text: t("ev_skills", { names: list(names) }), href: href("skills", names.slice(0, 1)) };
    }
    case "turn_finished": {
      const session = word(data["session"]);
      const added = typeof data["additions"] === "number" ? data["additions"] : 0;
      const where = session ? { href: href("conversations", [session]) } : {};
      const ok = word(data["outcome"]).toLowerCase() === "ok";
      const agent = word(data["agent"]) || t("agent_unknown");
      return ok ? { icon: "talk", text: t("ev_turn", { agent, n: added }), ...where } : { icon: "stop", text: t("ev_turn_failed", { agent }), ...where };
    }
    case "skill_moved": {
      const name = word(data["name"]);
      const state = word(data["state"]);
      const text = state === "trial" ? t("ev_skill_trial", { name }) : state === "active" ? t("ev_skill_active", { name }) : state === "retired" ? t("ev_skill_retired", { name }) : t("ev_skill_taken", { name });
      return { icon: state === "trial" ? "trial" : state === "retired" ? "off" : "skill", text, href: href("skills", [name]) };
    }
    case "skill_evolved": {
      const waits = Array.isArray(data["waiting"]) ? data["waiting"].length : 0;
      const session = word(data["session"]);
      if (waits > 0) return { icon: "prop", text: t("ev_skill_proposed", { n: waits }), href: href("skills") };
      return { icon: "hist", text: t("ev_skill_looked"), ...(session ? { href: href("conversations", [session]) } : {}) };
    }
    case "skill_proposals": {
      const names = list(words(data["names"]));
      const what = word(data["what"]);
      return { icon: "prop", text: what === "rejected" ? t("ev_prop_rejected", { names }) : what === "imported" ? t("ev_prop_imported", { names }) : t("ev_prop_edited", { names }), href: href("skills") };
    }
    case "skill_replayed": {
      const name = word(data["skill"]);
      return { icon: "fork", text: t("ev_skill_replayed", { name }), href: href("skills", [name]) };
    }
    case "skill_generation":
      return { icon: "skill", text: t("ev_skill_generation"), href: href("skills") };
    case "learning_on":
      return { icon: "play", text: t("ev_learning_on"), href: href("skills") };
    case "learning_off":
      return { icon: "off", text: t("ev_learning_off", { reason: word(data["reason"]) }), href: href("skills") };
    case "model_fetched":
      return { icon: "check", text: t("ev_model", { id: word(data["id"]) }) };
    case "model_not_fetched":
      return { icon: "stop", text: t("ev_model_failed", { id: word(data["id"]) }) };
    case "memory_learned":
      return { icon: "memory", text: t("ev_memory", { n: typeof data["facts"] === "number" ? data["facts"] : 0 }), href: href("memory") };
    case "memory_tidied":
      return { icon: "memory", text: t("ev_memory_tidied", { n: typeof data["closed"] === "number" ? data["closed"] : 0 }), href: href("memory") };
    case "memory_retired": {
      const count = (key: string): number => (typeof data[key] === "number" ? data[key] : 0);
      return { icon: "memory", text: t("ev_memory_retired", { n: count("facts") + count("passages") }), href: href("memory") };
    }
    case "session_ended":
      return { icon: "check", text: t("ev_session_ended") };
    case "fallback_used":
      return { icon: "fork", text: t("ev_fallback") };
    case "journal_failed":
      return { icon: "stop", text: t("ev_journal_failed") };
    case "journal_recovered":
      return { icon: "check", text: t("ev_journal_recovered") };
    default:
      return { icon: "info", text: event.kind.replaceAll("_", " "), lang: "en" };
  }
}
