// What the person chose about this window: language, theme, keys. Kept in this browser or window, not in the config:
// it says how to show things, not what the service does.
import type { Lang } from "../i18n/index.svelte";

export type Theme = "system" | "light" | "dark";

interface Kept {
  lang: Lang | "system";
  theme: Theme;
  keys: boolean;
}

const PLACE = "metaclaw.prefs";

function read(): Kept {
  const kept: Kept = { lang: "system", theme: "system", keys: true };
  try {
    const found: unknown = JSON.parse(localStorage.getItem(PLACE) ?? "{}");
    if (typeof found !== "object" || found === null) return kept;
    if ("lang" in found && (found.lang === "en" || found.lang === "zh-CN" || found.lang === "ja")) kept.lang = found.lang;
    if ("theme" in found && (found.theme === "light" || found.theme === "dark")) kept.theme = found.theme;
    if ("keys" in found && found.keys === false) kept.keys = false;
  } catch {
    // Storage that is blocked or damaged means the defaults.
  }
  return kept;
}

class Prefs implements Kept {
  lang: Lang | "system" = $state("system");
  theme: Theme = $state("system");
  /** Single-key shortcuts. */
  keys = $state(true);

  constructor() {
    Object.assign(this, read());
  }

  set(change: Partial<Kept>): void {
    Object.assign(this, change);
    try {
      localStorage.setItem(PLACE, JSON.stringify({ lang: this.lang, theme: this.theme, keys: this.keys }));
    } catch {
      // The choice then holds until the window closes.
    }
  }
}

export const prefs = new Prefs();
