import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { summary } from "../src/state/day";
import { Loaded } from "../src/state/loaded.svelte";
import { href, parse } from "../src/state/router.svelte";
import { asText, kindOf, sectionOf, typed, type Setting } from "../src/state/settings";
import { STAY, toasts } from "../src/state/toasts.svelte";
import { additions, sections, toolCalls, userTurns, type TurnRow } from "../src/state/turns";

const row = (more: Partial<TurnRow>): TurnRow => ({
  id: 1,
  session: "s",
  kind: "main",
  turn: 1,
  step: 0,
  dialect: "openai-chat",
  upstream_dialect: "openai-chat",
  started_ms: 1000,
  first_byte_ms: 1100,
  finished_ms: 2000,
  outcome: "ok",
  tokens: { input: 100, output: 10, cache_read: 40 },
  additions: [],
  request_bytes: 10,
  ...more,
});
const skill = (id: string, score = 1): TurnRow["additions"][number] => ({ kind: "skill", id, score, why: "w", tokens: 7 });

describe("addresses", () => {
  it("come back as they were made", () => {
    const made = href("conversations", ["a/b ü"], { turn: "3", view: undefined });
    expect(made).toBe("#/conversations/a%2Fb%20%C3%BC?turn=3");
    const place = parse(made);
    expect([place.page, place.parts, place.query.get("turn")]).toEqual(["conversations", ["a/b ü"], "3"]);
  });
  it("lead home when nobody knows them", () => {
    expect(parse("#/nowhere/x").page).toBe("home");
    expect(parse("").page).toBe("home");
    expect(parse("#/skills/%E0%A4%A").parts).toEqual(["%E0%A4%A"]);
  });
});

describe("a day", () => {
  it("counts user turns, not requests, and additions once", () => {
    const rows = [
      row({ id: 4, session: "t", outcome: "error", error: "busy", first_byte_ms: null }),
      row({ id: 3, kind: "title" }),
      row({ id: 2, step: 1, additions: [skill("a")] }),
      row({ id: 1, additions: [skill("a"), skill("b")] }),
    ];
    const day = summary(rows);
    expect([day.turns, day.added, day.others, day.failed]).toEqual([2, 1, 2, 1]);
    expect(day.addedTokens).toBe(14);
    expect(day.tokens).toEqual({ input: 400, output: 40, cached: 160 });
    expect(day.firstByte).toBe(100);
    expect(day.lastTrouble).toMatchObject({ session: "t", error: "busy" });
  });
});

describe("turns of a session", () => {
  it("keep steps together and side calls apart", () => {
    const { turns, side } = userTurns([row({ id: 1 }), row({ id: 2, kind: "title", turn: 1 }), row({ id: 3, step: 1 }), row({ id: 4, turn: 2 })]);
    expect(turns.map((turn) => turn.rows.map((one) => one.id))).toEqual([[1, 3], [4]]);
    expect(side.map((one) => one.id)).toEqual([2]);
    expect(additions({ no: 1, rows: [row({ additions: [skill("a", 1), skill("b", 2)] }), row({ additions: [skill("a", 1)] })] }).map((one) => one.id)).toEqual(["b", "a"]);
  });
  it("show the text each skill brought", () => {
    const block = "<metaclaw-context>\nReference notes.\n\n## Skill: a\nDoes a.\n\n## Not a skill\nx\n\n## Skill: b\nDoes b.\n</metaclaw-context>";
    expect([...sections(block)]).toEqual([
      ["a", "Does a.\n\n## Not a skill\nx"],
      ["b", "Does b."],
    ]);
  });
  it("find tool calls in an answer", () => {
    expect(toolCalls({ blocks: [{ type: "text", text: "x" }, { type: "tool_call", id: "1", name: "ls", arguments: "{}" }] })).toEqual([{ name: "ls", arguments: "{}" }]);
    expect(toolCalls(null)).toEqual([]);
  });
});

describe("settings", () => {
  const setting = (kind: object): Setting => ({ key: "k", value: "", default: "", doc: "", allowed: "", kind: { ...kind }, secret: false, state: "live", needs_restart: false });
  it("belong to the section of their first word", () => {
    expect(["mode", "llm.api_key", "embedding.model", "rl.model", "synergy.enabled", "unknown.key"].map(sectionOf)).toEqual(["general", "provider", "models", "training", "memory", "general"]);
  });
  it("are checked while they are typed", () => {
    const whole = kindOf(setting({ type: "integer", min: 0, max: 10 }));
    expect(typed(whole, "7")).toEqual({ ok: true, value: 7 });
    expect(typed(whole, "7.5")).toEqual({ ok: false, error: "number" });
    expect(typed(whole, "")).toEqual({ ok: false, error: "number" });
    expect(typed(whole, "11")).toEqual({ ok: false, error: "range" });
    expect(typed({ type: "list" }, " a \n\nb")).toEqual({ ok: true, value: ["a", "b"] });
    expect(typed({ type: "map" }, "a: b:c")).toEqual({ ok: true, value: { a: "b:c" } });
    expect(typed({ type: "map" }, "oops")).toEqual({ ok: false, error: "pair" });
    expect(asText({ a: "b" })).toBe("a: b");
    expect(kindOf(setting({ type: "something new" }))).toEqual({ type: "text" });
  });
});

describe("the toast", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());
  it("stays ten seconds, longer while it is looked at, and takes back once", async () => {
    const undo = vi.fn(() => Promise.resolve());
    toasts.say("done", undo);
    vi.advanceTimersByTime(STAY - 1);
    toasts.hold();
    vi.advanceTimersByTime(STAY);
    expect(toasts.current?.text).toBe("done");
    await toasts.undo();
    await toasts.undo();
    expect(undo).toHaveBeenCalledTimes(1);
    expect(toasts.current).toBeNull();
    toasts.say("next");
    vi.advanceTimersByTime(STAY);
    expect(toasts.current).toBeNull();
  });
});

it("an answer that was overtaken is dropped, and an old value outlives a failure", async () => {
  const loaded = new Loaded<number>();
  let slow: (value: number) => void = () => {};
  const first = loaded.read(() => new Promise<number>((done) => (slow = done)));
  await loaded.read(() => Promise.resolve(2));
  slow(1);
  await first;
  expect(loaded.value).toBe(2);
  const { Failure } = await import("../src/backend");
  await loaded.read(() => Promise.reject(new Failure({ code: "internal", message: "x" }, 500)));
  expect([loaded.value, loaded.failure?.status]).toEqual([2, 500]);
});
