// The language of the page: the system's or the person's choice. `t` gives a sentence, the others give numbers, times
// and lists in its form. All of them follow a change of language at once.
import { prefs } from "../state/prefs.svelte";
import { en } from "./en";
import { ja } from "./ja";
import { render, type Message, type Translation, type Values } from "./message";
import { zh } from "./zh";

export type Lang = "en" | "zh-CN" | "ja";
export const LANGS: readonly { id: Lang; name: string }[] = [
  { id: "en", name: "English" },
  { id: "zh-CN", name: "简体中文" },
  { id: "ja", name: "日本語" },
];

export type Catalogue = typeof en;
export type Key = keyof Catalogue;
/** Keys of sentences without slots, for tables of them. */
export type PlainKey = { [K in Key]: keyof Values<Catalogue[K]> extends never ? K : never }[Key];

const CATALOGUES: Record<Lang, Translation<Catalogue>> = { en, "zh-CN": zh, ja };

/** The best of ours for the languages the system asks for. */
export function pick(wanted: readonly string[]): Lang {
  for (const one of wanted) {
    const base = one.toLowerCase().split("-")[0];
    if (base === "zh") return "zh-CN";
    if (base === "ja") return "ja";
    if (base === "en") return "en";
  }
  return "en";
}

class Language {
  readonly current: Lang = $derived(prefs.lang === "system" ? pick(navigator.languages) : prefs.lang);
  /** The system's own form of the language, where it has one: dates of en-GB and en-US differ. */
  readonly locale = $derived(navigator.languages.find((one) => one.toLowerCase().split("-")[0] === this.current.split("-")[0]) ?? (this.current === "en" ? "en-GB" : this.current));
  readonly formats = $derived({
    plural: new Intl.PluralRules(this.locale),
    number: new Intl.NumberFormat(this.locale, { maximumFractionDigits: 2 }),
    compact: new Intl.NumberFormat(this.locale, { notation: "compact", maximumSignificantDigits: 3 }),
    percent: new Intl.NumberFormat(this.locale, { maximumFractionDigits: 0 }),
    one: new Intl.NumberFormat(this.locale, { maximumFractionDigits: 1 }),
    score: new Intl.NumberFormat(this.locale, { minimumFractionDigits: 2, maximumFractionDigits: 2 }),
    time: new Intl.DateTimeFormat(this.locale, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }),
    seconds: new Intl.DateTimeFormat(this.locale, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }),
    weekday: new Intl.DateTimeFormat(this.locale, { weekday: "short" }),
    day: new Intl.DateTimeFormat(this.locale, { weekday: "long", day: "numeric", month: "long" }),
    date: new Intl.DateTimeFormat(this.locale, { day: "numeric", month: "short" }),
    year: new Intl.DateTimeFormat(this.locale, { day: "numeric", month: "short", year: "numeric" }),
    list: new Intl.ListFormat(this.locale, { type: "conjunction", style: "narrow" }),
  });
}

export const language = new Language();

type Args<K extends Key> = keyof Values<Catalogue[K]> extends never ? [] : [values: Values<Catalogue[K]>];

/** A sentence in the page's language. */
export function t<K extends Key>(key: K, ...args: Args<K>): string {
  const message: Message = CATALOGUES[language.current][key];
  return render(message, (args[0] ?? {}) as Record<string, string | number>, language.formats);
}

/** What stands between two sentences: a space, or nothing after full-width punctuation. */
export const gap = (): string => (language.current === "en" ? " " : "");

/** What stands between two parts of one line of meta. */
export const comma = (): string => ({ en: ", ", "zh-CN": "，", ja: "、" })[language.current];

export const number = (value: number): string => language.formats.number.format(value);
/** 1,840,000 as 1.84 M, in zh and ja as 184 万. */
export function compact(value: number): string {
  const parts = language.formats.compact.formatToParts(value);
  const unit = parts.find((part) => part.type === "compact")?.value ?? "";
  const figures = parts.filter((part) => part.type !== "compact" && part.type !== "literal").map((part) => part.value).join("");
  return unit === "" ? figures : `${figures} ${unit === "K" ? "k" : unit}`;
}
export const percent = (share: number): string => `${language.formats.percent.format(share * 100)} %`;
export const score = (value: number): string => language.formats.score.format(value);
export const clock = (ms: number): string => language.formats.time.format(ms);
export const clockSeconds = (ms: number): string => language.formats.seconds.format(ms);
export const list = (items: readonly string[]): string => language.formats.list.format(items);

/** 1.8 ms, 0.64 s, 9.2 s, 3 min. */
export function duration(ms: number): string {
  const f = language.formats;
  if (ms < 100) return t("unit_ms", { n: f.one.format(ms) });
  if (ms < 1000) return t("unit_s", { n: f.score.format(ms / 1000) });
  if (ms < 60_000) return t("unit_s", { n: f.one.format(ms / 1000) });
  return t("unit_min", { n: f.number.format(Math.round(ms / 60_000)) });
}

/** Figures stand apart from CJK words, also in the dates of `Intl`. */
const spaced = (text: string): string => text.replace(/(\d)(?=[\u3040-\u30ff\u4e00-\u9fff])|([\u3040-\u30ff\u4e00-\u9fff])(?=\d)/g, "$& ");

const midnight = (ms: number): number => new Date(ms).setHours(0, 0, 0, 0);

/** Days between the local days of two moments. */
export function daysAgo(ms: number, now: number): number {
  return Math.round((midnight(now) - midnight(ms)) / 86_400_000);
}

/** 19:36 today, Sun within the week, 12 Nov, 12 Nov 2025. */
export function when(ms: number, now: number): string {
  const days = daysAgo(ms, now);
  const f = language.formats;
  if (days === 0) return f.time.format(ms);
  if (days > 0 && days < 7) return f.weekday.format(ms);
  return spaced(new Date(ms).getFullYear() === new Date(now).getFullYear() ? f.date.format(ms) : f.year.format(ms));
}

/** Heading of a day in a list: "Today, Monday 30 November", "Yesterday", "Friday 27 November". */
export function dayName(ms: number, now: number): string {
  const days = daysAgo(ms, now);
  const day = spaced(language.formats.day.format(ms));
  if (days === 0) return t("day_today", { day });
  if (days === 1) return t("day_yesterday");
  return days < 300 ? day : spaced(language.formats.year.format(ms));
}
