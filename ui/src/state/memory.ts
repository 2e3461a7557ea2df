// Readings of memory: what a kind and a speaker are called, which words of a hit matched, and the bars of a fact's life.
import type { Schemas } from "../backend";
import { t, type PlainKey } from "../i18n/index.svelte";
import type { IconName } from "../parts/Icon.svelte";

export type Memory = Schemas["Memory"];
export type Hit = Schemas["MemoryHit"];

/** The kinds that are chosen by hand, in the order of the page. */
export const KINDS = ["semantic", "procedural_observation", "preference", "project_state"] as const;
export type Kind = (typeof KINDS)[number];

const KIND_WORDS: Readonly<Record<string, PlainKey>> = {
  semantic: "mem_kind_fact",
  procedural_observation: "mem_kind_rule",
  preference: "mem_kind_preference",
  project_state: "mem_kind_decision",
  working_summary: "mem_kind_summary",
  episodic: "mem_kind_said",
};

export function kindWord(kind: string): string {
  const key = KIND_WORDS[kind];
  return key ? t(key) : kind;
}

export function speakerIcon(speaker: string): IconName {
  if (speaker === "user") return "me";
  if (speaker === "assistant") return "bot";
  return speaker === "tool" ? "file" : "web";
}

export function speakerWord(speaker: string): string {
  if (speaker === "user") return t("mem_by_you");
  if (speaker === "assistant") return t("mem_by_agent");
  return speaker === "tool" ? t("mem_by_tool") : speaker;
}

/** A passage, as it was said; its words cannot be changed. */
export const isPassage = (memory: Memory): boolean => memory.origin === "journal";

/** A text on one line. */
export const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim();

export interface Piece {
  text: string;
  on: boolean;
}

/** Splits a text at the words that recall says matched. */
export function marked(text: string, why: string): Piece[] {
  const words = why
    .split(",")
    .map((word) => word.trim())
    .filter((word) => word !== "" && (word.length > 1 || word > "\u3040"))
    .sort((a, b) => b.length - a.length);
  if (words.length === 0) return [{ text, on: false }];
  const any = new RegExp(`(${words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|")})`, "giu");
  return text
    .split(any)
    .map((piece, i) => ({ text: piece, on: i % 2 === 1 }))
    .filter((piece) => piece.text !== "");
}

/** The parts in which texts differ: what they begin and end with in common is left out, by whole words. */
export function differing(texts: readonly string[], lang: string): string[] {
  if (texts.length < 2) return [...texts];
  const segmenter = new Intl.Segmenter(lang, { granularity: "word" });
  const words = texts.map((text) => [...segmenter.segment(text)].map((one) => one.segment));
  const least = Math.min(...words.map((one) => one.length));
  const first = words[0] ?? [];
  let head = 0;
  while (head < least && words.every((one) => one[head] === first[head])) head++;
  let tail = 0;
  while (tail < least - head && words.every((one) => one.at(-1 - tail) === first.at(-1 - tail))) tail++;
  return words.map((one, i) => {
    const part = one.slice(head, one.length - tail).join("").trim().replace(/^[\s,.;:。，、；：]+|[\s,.;:。，、；：]+$/gu, "");
    return part === "" ? (texts[i] ?? "") : part;
  });
}

export interface Bar {
  id: string;
  content: string;
  /** What tells it from the other versions. */
  label: string;
  from: number;
  /** When it stopped being true; null = it still is. */
  to: number | null;
  said: number;
  state: "true" | "past" | "held";
}

/** A fact's versions as bars on real time, the oldest first. */
export function bars(versions: readonly Memory[], lang: string): Bar[] {
  const inOrder = [...versions].sort((a, b) => a.valid_from_ms - b.valid_from_ms || a.recorded_ms - b.recorded_ms);
  const labels = differing(inOrder.map((one) => oneLine(one.content)), lang);
  return inOrder.map((one, i) => ({
    id: one.id,
    content: one.content,
    label: labels[i] ?? one.content,
    from: one.valid_from_ms,
    to: one.status === "active" || one.status === "quarantined" ? null : (one.valid_to_ms ?? Math.max(one.updated_ms, one.valid_from_ms)),
    said: one.recorded_ms,
    state: one.status === "active" ? "true" : one.status === "quarantined" ? "held" : "past",
  }));
}

const DAY = 86_400_000;
export type Unit = "minute" | "hour" | "day" | "month" | "year";

/** The calendar steps of an axis: at most eight of them have a name. */
export function ticks(from: number, to: number): { at: number[]; unit: Unit } {
  const span = Math.max(to - from, 1);
  const steps: readonly [Unit, number, number][] = [
    ["minute", 1, 60_000],
    ["minute", 15, 900_000],
    ["hour", 1, 3_600_000],
    ["hour", 6, 21_600_000],
    ["day", 1, DAY],
    ["day", 7, 7 * DAY],
    ["month", 1, 30.4 * DAY],
    ["month", 2, 61 * DAY],
    ["month", 6, 183 * DAY],
    ["year", 1, 365 * DAY],
    ["year", 5, 1826 * DAY],
  ];
  const [unit, step] = steps.find(([, , length]) => span / length <= 6) ?? ["year", 10];
  const at: number[] = [];
  const date = new Date(from);
  date.setSeconds(0, 0);
  if (unit === "minute") date.setMinutes(Math.floor(date.getMinutes() / step) * step);
  else if (unit === "hour") date.setHours(Math.floor(date.getHours() / step) * step, 0);
  else if (unit === "day") date.setHours(0, 0);
  else {
    date.setHours(0, 0);
    date.setDate(1);
    if (unit === "month") date.setMonth(Math.floor(date.getMonth() / step) * step);
    else date.setFullYear(Math.floor(date.getFullYear() / step) * step, 0);
  }
  while (date.getTime() <= to && at.length < 40) {
    if (date.getTime() >= from) at.push(date.getTime());
    if (unit === "minute") date.setMinutes(date.getMinutes() + step);
    else if (unit === "hour") date.setHours(date.getHours() + step);
    else if (unit === "day") date.setDate(date.getDate() + step);
    else if (unit === "month") date.setMonth(date.getMonth() + step);
    else date.setFullYear(date.getFullYear() + step);
  }
  return { at, unit };
}
