// Settings as a form: which section a key belongs to, its value as text, and a first check before the service's own.
import type { Schemas } from "../backend";
import { t } from "../i18n/index.svelte";

export type Setting = Schemas["Setting"];
export const SECTIONS = ["general", "provider", "models", "proxy", "skills", "memory", "training", "schedule", "window", "logs", "diagnostics"] as const;
export type Section = (typeof SECTIONS)[number];

const HOMES: Readonly<Record<string, Section>> = {
  llm: "provider",
  openrouter: "provider",
  builtin: "models",
  embedding: "models",
  proxy: "proxy",
  control: "proxy",
  skills: "skills",
  memory: "memory",
  synergy: "memory",
  rl: "training",
  opd: "training",
  scheduler: "schedule",
};

export function sectionOf(key: string): Section {
  const dot = key.indexOf(".");
  return dot < 0 ? "general" : (HOMES[key.slice(0, dot)] ?? "general");
}

/** A provider as people call it; the one that is only an address has no name of its own. */
export const providerName = (one: { id: string; label: string }): string => (one.id === "custom" ? t("provider_another") : one.label);

export type Kind =
  | { type: "bool" | "text" | "secret" | "provider" | "path" | "url" | "address" | "time" | "list" | "map" | "secret_map" }
  | { type: "integer" | "number"; min: number; max: number }
  | { type: "choice"; of: string[] };

export function kindOf(setting: Setting): Kind {
  const kind: Record<string, unknown> = setting.kind;
  const type = kind["type"];
  if (type === "choice" && Array.isArray(kind["of"])) return { type, of: kind["of"].map(String) };
  if ((type === "integer" || type === "number") && typeof kind["min"] === "number" && typeof kind["max"] === "number") return { type, min: kind["min"], max: kind["max"] };
  switch (type) {
    case "bool":
    case "secret":
    case "provider":
    case "path":
    case "url":
    case "address":
    case "time":
    case "list":
    case "map":
    case "secret_map":
      return { type };
    default:
      return { type: "text" };
  }
}

/** A value as one types it: lists one a line, maps `name: value` a line. */
export function asText(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.map(String).join("\n");
  if (typeof value === "object") {
    return Object.entries(value)
      .map(([name, one]) => `${name}: ${typeof one === "string" ? one : JSON.stringify(one)}`)
      .join("\n");
  }
  return String(value);
}

/** A value as a short line. */
export const asLine = (value: unknown): string => asText(value).split("\n").join(", ");

export type Typed = { ok: true; value: unknown } | { ok: false; error: "number" | "range" | "pair" };

/** What was typed as a value of its kind, or what is wrong with it. */
export function typed(kind: Kind, text: string): Typed {
  switch (kind.type) {
    case "integer":
    case "number": {
      const value = Number(text.trim());
      if (text.trim() === "" || !Number.isFinite(value) || (kind.type === "integer" && !Number.isInteger(value))) return { ok: false, error: "number" };
      return value < kind.min || value > kind.max ? { ok: false, error: "range" } : { ok: true, value };
    }
    case "bool":
      return { ok: true, value: text === "true" };
    case "list":
      return { ok: true, value: text.split("\n").map((line) => line.trim()).filter((line) => line !== "") };
    case "map":
    case "secret_map": {
      const value: Record<string, string> = {};
      for (const line of text.split("\n").filter((one) => one.trim() !== "")) {
        const colon = line.indexOf(":");
        if (colon < 1) return { ok: false, error: "pair" };
        value[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
      }
      return { ok: true, value };
    }
    default:
      return { ok: true, value: text };
  }
}

export const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);
