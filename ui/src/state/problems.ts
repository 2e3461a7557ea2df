// What waits for the person, from the service's own words: each with a reason and the page that mends it. Home lists
// them, the foot of the navigation names the first.
import type { Schemas } from "../backend";
import { t } from "../i18n/index.svelte";
import type { IconName } from "../parts/Icon.svelte";
import { href } from "./router.svelte";

export interface Waiting {
  id: string;
  tone: "bad" | "warn" | "plain";
  icon: IconName;
  title: string;
  /** Said by this window, or by the service in English. */
  reason: string;
  reasonLang?: "en";
  action: string;
  href: string;
}

export function waiting(status: Schemas["Status"], memory: Schemas["MemoryStats"] | null = null, learning: Schemas["Learning"] | null = null): Waiting[] {
  const found: Waiting[] = [];
  const add = (one: Waiting): void => void found.push(one);
  if (status.config_problem) {
    add({
      id: "config",
      tone: "bad",
      icon: "alert",
      title: t("wait_config"),
      reason: status.config_problem,
      reasonLang: "en",
      action: t("wait_config_do"),
      href: href("settings", ["diagnostics"]),
    });
  }
  if (!status.configured) {
    add({
      id: "provider",
      tone: "bad",
      icon: "alert",
      title: t("wait_provider"),
      reason: status.missing ?? t("wait_provider_why"),
      ...(status.missing ? { reasonLang: "en" as const } : {}),
      action: t("wait_provider_do"),
      href: href("setup"),
    });
  }
  if (status.listen_note) {
    add({
      id: "listen",
      tone: "warn",
      icon: "alert",
      title: t("wait_listen"),
      reason: status.listen_note,
      reasonLang: "en",
      action: t("wait_listen_do"),
      href: href("settings", ["proxy"]),
    });
  }
  if (status.restart_for.length > 0) {
    add({
      id: "restart",
      tone: "plain",
      icon: "clock",
      title: t("wait_restart"),
      reason: t("wait_restart_why", { keys: status.restart_for.join(", ") }),
      action: t("wait_restart_do"),
      href: href("settings", ["general"]),
    });
  }
  if (status.skills.unusable > 0) {
    add({
      id: "skills",
      tone: "warn",
      icon: "skill",
      title: t("wait_skills", { n: status.skills.unusable }),
      reason: t("wait_skills_why"),
      action: t("wait_skills_do"),
      href: href("skills", [], { show: "unusable" }),
    });
  }
  if (learning && learning.waiting > 0) {
    add({
      id: "proposals",
      tone: "plain",
      icon: "prop",
      title: t("wait_proposals", { n: learning.waiting }),
      reason: t("wait_proposals_why"),
      action: t("wait_proposals_do"),
      href: href("skills"),
    });
  }
  if (memory && memory.quarantined > 0) {
    add({
      id: "memory",
      tone: "plain",
      icon: "memory",
      title: t("wait_memory", { n: memory.quarantined }),
      reason: t("wait_memory_why"),
      action: t("wait_memory_do"),
      href: href("memory"),
    });
  }
  status.warnings.forEach((warning, i) => {
    add({
      id: `warning-${i}`,
      tone: "warn",
      icon: "alert",
      title: t("wait_warning"),
      reason: warning,
      reasonLang: "en",
      action: t("look"),
      href: href("settings", ["diagnostics"]),
    });
  });
  return found;
}
