import { describe, expect, it } from "vitest";
import { compact, dayName, duration, pick, t, when } from "../src/i18n/index.svelte";
import { en } from "../src/i18n/en";
import { ja } from "../src/i18n/ja";
import { slots, type Message } from "../src/i18n/message";
import { zh } from "../src/i18n/zh";
import { prefs } from "../src/state/prefs.svelte";

const NOW = new Date(2026, 10, 30, 19, 48).getTime();

describe("messages", () => {
  it.each([
    ["zh-CN", zh],
    ["ja", ja],
  ])("has the slots of English in %s", (_, catalogue) => {
    for (const [key, message] of Object.entries(en) as [keyof typeof en, Message][]) {
      expect([key, [...slots(catalogue[key])].sort()]).toEqual([key, [...slots(message)].sort()]);
    }
  });

  it("writes full-width punctuation, and a space between Chinese or Japanese and Latin words", () => {
    for (const catalogue of [zh, ja]) {
      for (const [key, message] of Object.entries(catalogue) as [string, Message][]) {
        const texts = typeof message === "string" ? [message] : [message.other];
        for (const text of texts) {
          expect([key, /[\u3040-\u30ff\u4e00-\u9fff][A-Za-z0-9{]|[A-Za-z0-9][\u3040-\u30ff\u4e00-\u9fff]/.exec(text.replace(/\{(time|day|step|mode|span|state|who)\}/g, ""))?.[0]]).toEqual([key, undefined]);
          expect([key, /[\u3040-\u30ff\u4e00-\u9fff][,.;:!?]/.exec(text.replace(/: 値|: 值/, ""))?.[0]]).toEqual([key, undefined]);
        }
      }
    }
  });

  it("counts by the rules of the language", () => {
    prefs.set({ lang: "en" });
    expect(t("say_turns", { turns: 1, added: 0 })).toBe("1 turn today, 0 with something added.");
    expect(t("say_turns", { turns: 41, added: 33 })).toBe("41 turns today, 33 with something added.");
    expect(t("ev_turn", { agent: "OpenClaw", n: 0 })).toBe("A turn of OpenClaw, nothing added");
    prefs.set({ lang: "zh-CN" });
    expect(t("say_turns", { turns: 41, added: 33 })).toBe("今天 41 轮对话，33 轮补充了内容。");
    prefs.set({ lang: "ja" });
    expect(t("say_turns", { turns: 1, added: 1 })).toBe("今日は 1 ターン、うち 1 件に追記しました。");
  });

  it("follows the system until the person chooses", () => {
    expect(pick(["de-AT", "ja-JP"])).toBe("ja");
    expect(pick(["zh-Hant-TW"])).toBe("zh-CN");
    expect(pick(["fr"])).toBe("en");
  });
});

describe("figures and times", () => {
  it("writes large counts in the language's own steps", () => {
    prefs.set({ lang: "en" });
    expect(compact(1_840_000)).toBe("1.84 M");
    expect(compact(61_000)).toBe("61 k");
    expect(compact(412)).toBe("412");
    prefs.set({ lang: "zh-CN" });
    expect(compact(1_840_000)).toBe("184 万");
  });

  it("writes durations with the unit after a space", () => {
    prefs.set({ lang: "en" });
    expect([1.84, 640, 9200, 180_000].map(duration)).toEqual(["1.8 ms", "0.64 s", "9.2 s", "3 min"]);
  });

  it("names days from near to far", () => {
    prefs.set({ lang: "en" });
    const at = (days: number): number => NOW - days * 86_400_000;
    expect(when(at(0), NOW)).toBe("19:48");
    expect(when(at(1), NOW)).toBe("Sun");
    expect(dayName(at(1), NOW)).toBe("Yesterday");
    expect(dayName(at(0), NOW)).toMatch(/^Today, Monday/);
    prefs.set({ lang: "zh-CN" });
    expect(dayName(at(0), NOW)).toBe("今天，11 月 30 日星期一");
  });
});
