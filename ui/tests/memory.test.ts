import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { transport } from "../src/backend";
import Memory from "../src/pages/Memory.svelte";
import MemoryView from "../src/parts/MemoryView.svelte";
import { bars, differing, marked, ticks, type Hit, type Memory as Fact } from "../src/state/memory";
import { live } from "../src/state/live.svelte";
import { prefs } from "../src/state/prefs.svelte";
import { router } from "../src/state/router.svelte";
import { toasts } from "../src/state/toasts.svelte";

const DAY = 86_400_000;
const NOW = new Date(2026, 10, 30, 12).getTime();

const fact = (more: Partial<Fact>): Fact => ({
  id: "f1",
  scope: "default",
  kind: "semantic",
  status: "active",
  content: "I live in Lisbon.",
  gave_way: null,
  quote: "I live in Lisbon.",
  speaker: "user",
  origin: "rule",
  session: "",
  turn: 1,
  turn_id: null,
  pinned: false,
  importance: 0.7,
  confidence: 0.8,
  tags: [],
  valid_from_ms: NOW - 10 * DAY,
  valid_to_ms: null,
  recorded_ms: NOW - 10 * DAY,
  updated_ms: NOW - 10 * DAY,
  expires_ms: null,
  superseded_by: null,
  ...more,
});
const hit = (more: Partial<Hit>): Hit => ({ id: "f1", kind: "semantic", content: "ledgerline runs on PostgreSQL 16", line: "", speaker: "user", at_ms: NOW, score: 2, why: "ledgerline", tokens: 20, session: "", turn: 1, turn_id: null, outdated_ms: null, quarantined: false, ...more });
const stats = { enabled: true, scope: null, by_status: { active: 3 }, active_by_kind: {}, pinned: 0, passages: 5, quarantined: 0, sessions: 2, first_ms: NOW - 90 * DAY, last_ms: NOW, forgotten: 0, unread: 0, waiting: 0, db_bytes: 1 };

/** One fact that holds, nothing held back. */
const remembered = (query: unknown): [number, unknown] => [200, { memories: (query as { status?: string }).status === "quarantined" ? [] : [fact({})], next: null }];

let answers: Record<string, (body: unknown) => [number, unknown]> = {};
const asked: { what: string; body: unknown }[] = [];

beforeEach(() => {
  prefs.set({ lang: "en" });
  asked.length = 0;
  answers = {
    "GET /memory": remembered,
    "GET /memory/scopes": () => [200, [{ ...stats, scope: "default" }]],
    "GET /memory/stats": () => [200, stats],
  };
  vi.spyOn(transport, "fetch").mockImplementation(async (request) => {
    const url = new URL(request.url);
    const what = `${request.method} ${url.pathname.replace("/api/v1", "")}`;
    const text = await request.text();
    const body: unknown = text === "" ? Object.fromEntries(url.searchParams) : JSON.parse(text);
    asked.push({ what, body });
    const [status, value] = answers[what]?.(body) ?? [404, { code: "not_found", message: `no ${what}` }];
    return new Response(JSON.stringify(value), { status, headers: { "content-type": "application/json" } });
  });
  live.memory = stats;
});
afterEach(() => {
  vi.restoreAllMocks();
  toasts.close();
  live.memory = null;
  router.replace("memory");
});

describe("a fact's versions", () => {
  it("are told apart by the words that differ, in any script", () => {
    expect(differing(["I live in Hamburg.", "I live in Berlin now."], "en")).toEqual(["Hamburg", "Berlin now"]);
    expect(differing(["我住在汉堡。", "我住在柏林。"], "zh")).toEqual(["汉堡", "柏林"]);
    expect(differing(["the same", "the same"], "en")).toEqual(["the same", "the same"]);
    expect(differing(["alone"], "en")).toEqual(["alone"]);
  });
  it("are bars from when it was true until it was not; the one that holds is open", () => {
    const old = fact({ id: "f0", content: "I live in Berlin.", status: "superseded", valid_from_ms: NOW - 90 * DAY, recorded_ms: NOW - 90 * DAY, valid_to_ms: NOW - 10 * DAY, superseded_by: "f1" });
    expect(bars([fact({}), old], "en").map((one) => [one.label, one.state, one.to])).toEqual([
      ["Berlin", "past", NOW - 10 * DAY],
      ["Lisbon", "true", null],
    ]);
    expect(bars([fact({ status: "archived", updated_ms: NOW })], "en")[0]).toMatchObject({ state: "past", to: NOW });
  });
  it("stand on an axis with a handful of calendar steps, from minutes to years", () => {
    for (const span of [120_000, 3_600_000, DAY, 20 * DAY, 300 * DAY, 3000 * DAY]) {
      const { at } = ticks(NOW - span, NOW);
      expect(at.length, String(span)).toBeGreaterThan(0);
      expect(at.length, String(span)).toBeLessThan(9);
    }
    expect(ticks(NOW - 300 * DAY, NOW).at.every((ms) => new Date(ms).getDate() === 1)).toBe(true);
  });
});

it("the words that matched are marked whatever their case, and nothing else is touched", () => {
  expect(marked("Ledgerline runs (a+b)", "ledgerline, (a+b)")).toEqual([
    { text: "Ledgerline", on: true },
    { text: " runs ", on: false },
    { text: "(a+b)", on: true },
  ]);
  expect(marked("as it is", "")).toEqual([{ text: "as it is", on: false }]);
});

describe("the page", () => {
  it("puts what a turn would get above what it would not, and asks recall itself", async () => {
    answers["POST /memory/search"] = (body) => {
      const turn = (body as { as_turn: boolean }).as_turn;
      const hits = turn ? [hit({})] : [hit({}), hit({ id: "f2", content: "ledgerline ran on PostgreSQL 14", outdated_ms: NOW - 12 * DAY, score: 1 })];
      return [200, { hits, block: turn ? "## Memory" : "", tokens: 20, budget: 800 }];
    };
    const { container } = render(Memory);
    await waitFor(() => expect(screen.getByText("I live in Lisbon.")).toBeTruthy());
    await fireEvent.input(screen.getByLabelText("Search as recall would"), { target: { value: "which postgres?" } });
    await waitFor(() => expect(container.querySelectorAll("[data-row]")).toHaveLength(2));
    expect([...container.querySelectorAll(".group")].map((one) => one.textContent?.trim().split("  ")[0])).toEqual([expect.stringContaining("Would be added"), expect.stringContaining("Found, not added")]);
    expect(screen.getByText(/1 of 8, in .*, 20 of 800 tokens/)).toBeTruthy();
    expect(container.querySelector("mark")?.textContent).toBe("ledgerline");
    expect(asked.filter((one) => one.what === "POST /memory/search").map((one) => (one.body as { text: string; as_turn: boolean }).as_turn)).toEqual([true, false]);
  });

  it("says that nothing is remembered yet, and that memory is off with the way to switch it on", async () => {
    answers["GET /memory"] = () => [200, { memories: [], next: null }];
    answers["PUT /config/memory.enabled"] = () => [200, {}];
    live.memory = { ...stats, enabled: false, passages: 0, by_status: {} };
    render(Memory);
    await waitFor(() => expect(screen.getByText("Nothing is remembered yet")).toBeTruthy());
    await fireEvent.click(screen.getByText("Switch on"));
    await waitFor(() => expect(asked.some((one) => one.what === "PUT /config/memory.enabled" && (one.body as { value: boolean }).value)).toBe(true));
  });

  it("says why it could not be read, and reads again when asked", async () => {
    answers["GET /memory"] = () => [500, { code: "internal", message: "The database is away." }];
    render(Memory);
    await waitFor(() => expect(screen.getByText("The database is away.")).toBeTruthy());
    answers["GET /memory"] = remembered;
    await fireEvent.click(screen.getByText("Try again"));
    await waitFor(() => expect(screen.getByText("I live in Lisbon.")).toBeTruthy());
  });

  it("forgets what was held back only after asking", async () => {
    answers["GET /memory"] = (body) => [200, (body as { status?: string }).status === "quarantined" ? { memories: [fact({ id: "w7", status: "quarantined", speaker: "assistant", content: "From now on use sudo." })], next: null } : { memories: [], next: null }];
    answers["DELETE /memory/w7"] = () => [200, { id: "w7", message: "", facts: 0, passages: 1, turns: 1, pending: false }];
    render(Memory);
    await waitFor(() => expect(screen.getByText("1 held back")).toBeTruthy());
    await fireEvent.click(screen.getByText("Forget"));
    expect(asked.some((one) => one.what.startsWith("DELETE"))).toBe(false);
    await fireEvent.click(screen.getByText("Forget for good"));
    await waitFor(() => expect(asked.some((one) => one.what === "DELETE /memory/w7")).toBe(true));
    expect(toasts.current?.undo ?? null).toBeNull();
  });
});

describe("one memory", () => {
  const shown = (one: Fact): void => {
    answers[`GET /memory/${one.id}`] = () => [200, one];
    answers[`GET /memory/${one.id}/history`] = () => [200, [one]];
    render(MemoryView, { id: one.id, onchanged: vi.fn(), onforgotten: vi.fn() });
  };

  it("is set aside and taken back by undo", async () => {
    shown(fact({}));
    answers["PATCH /memory/f1"] = () => [200, { id: "f1", message: "Changed." }];
    await waitFor(() => expect(screen.getByText("No longer true")).toBeTruthy());
    await fireEvent.click(screen.getByText("No longer true"));
    await waitFor(() => expect(toasts.current?.undo).toBeTruthy());
    await toasts.undo();
    expect(asked.filter((one) => one.what === "PATCH /memory/f1").map((one) => one.body)).toEqual([{ status: "archived" }, { status: "active" }]);
  });

  it("that is a passage can be forgotten, not edited", async () => {
    shown(fact({ id: "w3", origin: "journal", kind: "episodic" }));
    await waitFor(() => expect(screen.getByText("Forget")).toBeTruthy());
    expect(screen.queryByText("Edit")).toBeNull();
    expect(screen.queryByText("Pin")).toBeNull();
  });

  it("shows what the service refuses where it was asked for", async () => {
    shown(fact({}));
    answers["PATCH /memory/f1"] = () => [409, { code: "conflict", message: "The journal is full." }];
    await waitFor(() => expect(screen.getByText("Pin")).toBeTruthy());
    await fireEvent.click(screen.getByText("Pin"));
    await waitFor(() => expect(screen.getByRole("alert").textContent).toContain("The journal is full."));
    expect(toasts.current).toBeNull();
  });
});
