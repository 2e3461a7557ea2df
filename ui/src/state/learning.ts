// Readings of learned skills: where each stands, the shared axis of effects, and a unified diff as lines.
import type { Schemas } from "../backend";
import { language, t } from "../i18n/index.svelte";
import type { IconName } from "../parts/Icon.svelte";

export type Row = Schemas["SkillRow"];
export type Effect = Schemas["SkillEffect"];
export type Learned = Schemas["LearnedSkill"];

export interface Standing {
  icon: IconName;
  tone: string;
  word: string;
}

/** Where a skill stands, as a shape and a word. */
export function standing(row: Row | undefined, learned: Learned | undefined): Standing {
  if (learned?.state === "retired" && !row) return { icon: "off", tone: "", word: t("skill_retired") };
  if (row && !row.enabled) return { icon: "off", tone: "", word: t("skill_off") };
  if (learned?.state === "trial") return { icon: "trial", tone: "warn", word: t("skill_trial") };
  if (learned?.state === "active") return { icon: "on", tone: "good", word: t("skill_active") };
  return { icon: "on", tone: "good", word: t("skill_on") };
}

const NICE = [0.05, 0.1, 0.2, 0.25, 0.5, 1] as const;

/** Half the length of the axis that all effects of a list share. */
export function reach(effects: readonly Effect[]): number {
  const most = Math.max(0, ...effects.flatMap((one) => (one.low == null || one.high == null ? [] : [Math.abs(one.low), Math.abs(one.high)])));
  return NICE.find((step) => step >= most) ?? 1;
}

/** +0.14, −0.06, 0.00: with a sign, and a minus of the width of a plus. */
export function signed(value: number, digits = 2): string {
  const rounded = Number(value.toFixed(digits));
  const text = new Intl.NumberFormat(language.locale, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(Math.abs(rounded));
  return rounded > 0 ? `+${text}` : rounded < 0 ? `−${text}` : text;
}

/** The interval is clear of 0. */
export const clear = (low: number, high: number): boolean => low > 0 || high < 0;

export interface DiffLine {
  sign: " " | "+" | "-" | "@";
  /** Number in the newer text, in the older one for what is gone. */
  no: number | null;
  text: string;
}

/** A unified diff as lines with their numbers. */
export function diffLines(diff: string): DiffLine[] {
  const lines: DiffLine[] = [];
  let [older, newer] = [0, 0];
  for (const line of diff.replace(/\n$/, "").split("\n")) {
    const head = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
    if (head) {
      [older, newer] = [Number(head[1]), Number(head[2])];
      if (lines.length > 0) lines.push({ sign: "@", no: null, text: "" });
    } else if (line.startsWith("--- ") || line.startsWith("+++ ")) continue;
    else if (line.startsWith("+")) lines.push({ sign: "+", no: newer++, text: line.slice(1) });
    else if (line.startsWith("-")) lines.push({ sign: "-", no: older++, text: line.slice(1) });
    else if (line.startsWith(" ")) {
      lines.push({ sign: " ", no: newer++, text: line.slice(1) });
      older++;
    }
  }
  return lines;
}

/** A finding as sentences: what is the matter, and what to do. */
export function findingText(one: Schemas["SkillFinding"]): string {
  const whole = (part: string): string => (part === "" ? "" : `${part.charAt(0).toLocaleUpperCase("en")}${part.slice(1)}${/[.!?]$/.test(part) ? "" : "."}`);
  return [one.message, one.fix].map((part) => whole(part.trim())).filter((part) => part !== "").join(" ");
}

/** Why a proposal waits. */
export function holdWord(hold: string | null | undefined): string {
  if (hold === "quarantine") return t("prop_hold_quarantine");
  if (hold === "suggestion") return t("prop_hold_suggestion");
  if (hold === "full") return t("prop_hold_full");
  return t("prop_hold_review");
}
