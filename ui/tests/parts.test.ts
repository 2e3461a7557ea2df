import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { createRawSnippet } from "svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { transport, type Schemas } from "../src/backend";
import DaySheet from "../src/parts/DaySheet.svelte";
import Nav from "../src/parts/Nav.svelte";
import Seg from "../src/parts/Seg.svelte";
import SettingRow from "../src/parts/SettingRow.svelte";
import TurnPlace from "../src/parts/TurnPlace.svelte";
import VirtualList from "../src/parts/VirtualList.svelte";
import { live } from "../src/state/live.svelte";
import { prefs } from "../src/state/prefs.svelte";
import type { Setting } from "../src/state/settings";
import { toasts } from "../src/state/toasts.svelte";

/** What the service would answer, by "METHOD path". */
let answers: Record<string, (body: unknown) => [number, unknown]> = {};
const asked: { what: string; body: unknown }[] = [];

beforeEach(() => {
  prefs.set({ lang: "en" });
  answers = {};
  asked.length = 0;
  vi.spyOn(transport, "fetch").mockImplementation(async (request) => {
    const url = new URL(request.url);
    const what = `${request.method} ${url.pathname.replace("/api/v1", "")}${url.search}`;
    const text = await request.text();
    const body: unknown = text === "" ? null : JSON.parse(text);
    asked.push({ what, body });
    const answer = answers[what];
    const [status, value] = answer ? answer(body) : [404, { code: "not_found", message: `no ${what}` }];
    return new Response(JSON.stringify(value), { status, headers: { "content-type": "application/json" } });
  });
});
afterEach(() => {
  vi.restoreAllMocks();
  toasts.close();
  live.status = null;
  live.link = "connecting";
});

describe("segments", () => {
  it("move with the arrow keys and tell which one is chosen", async () => {
    const chosen = vi.fn();
    const options = [
      { id: "a", label: "A" },
      { id: "b", label: "B", disabled: true },
      { id: "c", label: "C" },
    ];
    render(Seg, { options, value: "a", label: "Mode", onchange: chosen });
    const [a, , c] = screen.getAllByRole("radio");
    expect(a?.getAttribute("aria-checked")).toBe("true");
    await fireEvent.keyDown(a as HTMLElement, { key: "ArrowRight" });
    expect(chosen).toHaveBeenCalledWith("c");
    expect(document.activeElement).toBe(c);
    await fireEvent.keyDown(a as HTMLElement, { key: "ArrowLeft" });
    expect(chosen).toHaveBeenLastCalledWith("c");
  });
});

describe("a long list", () => {
  it("draws a screenful of 100,000 rows and keeps the true height", () => {
    const items = Array.from({ length: 100_000 }, (_, i) => i);
    const row = createRawSnippet<[unknown, number]>((item) => ({ render: () => `<a href="#x" data-row>row ${String(item())}</a>` }));
    const { container } = render(VirtualList, { items, height: () => 55, key: (item: unknown) => Number(item), label: "Rows", row });
    expect(container.querySelectorAll("[data-row]").length).toBeLessThan(40);
    expect(container.querySelector<HTMLElement>("[role=list]")?.style.height).toBe("5500000px");
  });
});

const setting = (more: Partial<Setting>): Setting => ({
  key: "skills.top_k",
  value: 6,
  default: 6,
  line: null,
  doc: "At most so many.",
  allowed: "",
  kind: { type: "integer", min: 0, max: 100 },
  secret: false,
  state: "live",
  note: null,
  needs_restart: false,
  ...more,
});

describe("a setting", () => {
  it("is checked while typed, written on leaving the field, and taken back by undo", async () => {
    const changed = vi.fn();
    answers["PUT /config/skills.top_k"] = () => [200, setting({ value: 8, line: 3 })];
    answers["DELETE /config/skills.top_k"] = () => [200, setting({})];
    render(SettingRow, { setting: setting({}), providers: [], onchanged: changed });
    const field = screen.getByLabelText("skills.top_k");
    await fireEvent.input(field, { target: { value: "many" } });
    expect(screen.getByRole("alert").textContent).toContain("This is no number.");
    await fireEvent.blur(field);
    expect(asked).toEqual([]);
    await fireEvent.input(field, { target: { value: "8" } });
    await fireEvent.blur(field);
    await waitFor(() => expect(changed).toHaveBeenCalledWith(expect.objectContaining({ value: 8 })));
    expect(asked[0]).toEqual({ what: "PUT /config/skills.top_k", body: { value: 8 } });
    await toasts.undo();
    expect(asked[1]?.what).toBe("DELETE /config/skills.top_k");
  });

  it("shows what the service refuses, and keeps what was typed", async () => {
    answers["PUT /config/skills.top_k"] = () => [422, { code: "invalid", message: "Too many.", hint: "Take fewer." }];
    render(SettingRow, { setting: setting({}), providers: [], onchanged: vi.fn() });
    const field = screen.getByLabelText<HTMLInputElement>("skills.top_k");
    await fireEvent.input(field, { target: { value: "99" } });
    await fireEvent.blur(field);
    await waitFor(() => expect(screen.getByRole("alert").textContent).toContain("Too many. Take fewer."));
    expect(field.value).toBe("99");
    expect(field.getAttribute("aria-invalid")).toBe("true");
  });

  it("never shows a secret before it is asked for", async () => {
    answers["GET /config/llm.api_key?reveal=true"] = () => [200, setting({ key: "llm.api_key", value: "sk-1", secret: true, kind: { type: "secret" } })];
    const { container } = render(SettingRow, { setting: setting({ key: "llm.api_key", value: "(set)", secret: true, kind: { type: "secret" } }), providers: [], onchanged: vi.fn() });
    const field = screen.getByLabelText<HTMLInputElement>("llm.api_key");
    expect([field.type, field.value]).toEqual(["password", ""]);
    await fireEvent.blur(field);
    expect(asked).toEqual([]);
    await fireEvent.click(screen.getByText("Show"));
    await waitFor(() => expect(field.value).toBe("sk-1"));
    await fireEvent.click(screen.getByText("Hide"));
    expect(container.innerHTML).not.toContain("sk-1");
  });

  it("that does nothing cannot be changed, and says why", () => {
    render(SettingRow, { setting: setting({ state: "accepted", note: "use another" }), providers: [], onchanged: vi.fn() });
    expect(screen.getByLabelText<HTMLInputElement>("skills.top_k").disabled).toBe(true);
    expect(screen.getByText("Use another.")).toBeTruthy();
  });
});

const status = (more: Partial<Schemas["Status"]>): Schemas["Status"] => ({
  state: "running",
  version: "1",
  mode: "auto",
  mode_overruled: false,
  base_url: "http://127.0.0.1:30000/v1",
  port: 30000,
  key_required: true,
  configured: true,
  provider: { id: "custom", passthrough: false },
  skills: { enabled: true, count: 3, disabled: 0, unusable: 0 },
  home: "/h",
  config: "/h/config.yaml",
  warnings: [],
  later: [],
  restart_for: [],
  ...more,
});

describe("the navigation", () => {
  it("says the state, the address and the first problem", () => {
    live.link = "up";
    live.status = status({ configured: false, missing: "no key" });
    live.skillFindings = 2;
    const { container } = render(Nav, { page: "skills" });
    expect(container.querySelector(".st")?.textContent).toContain("Running");
    expect(container.querySelector(".addr")?.textContent).toBe("127.0.0.1:30000");
    expect(container.querySelector(".note")?.textContent).toBe("No provider is set up");
    expect(screen.getByText("2 files cannot be used")).toBeTruthy();
    expect(container.querySelector("[aria-current=page]")?.textContent).toContain("Skills");
  });
  it("says when nobody answers", () => {
    live.link = "down";
    live.status = status({});
    const { container } = render(Nav, { page: "home" });
    expect(container.querySelector(".st")?.textContent).toContain("No answer");
  });
});

it("the day sheet says its finding in one sentence and draws one mark per turn", () => {
  const at = new Date(2026, 10, 30).getTime();
  const mark = (hour: number, added: number) => ({ at: at + hour * 3_600_000, added, outcome: "ok" });
  const { container } = render(DaySheet, {
    now: at + 12 * 3_600_000,
    midnight: at,
    day: { cut: false, turns: 2, added: 1, others: 0, failed: 0, marks: [mark(6, 0), mark(9, 2)], skills: [], memories: [{ at: at + 3 * 3_600_000, text: "I live in Lisbon." }], tokens: { input: 0, output: 0, cached: 0 }, addedTokens: 0, firstByte: null, lastTrouble: null },
  });
  expect(screen.getByRole("img").querySelector("title")?.textContent).toBe("Today: 2 turns, 1 with something added, 0 changes of skills");
  expect([...container.querySelectorAll("line.t1")].map((line) => line.getAttribute("x1"))).toEqual(["25.00%", "37.50%"]);
  expect(container.querySelectorAll(".plotbox line.t3")).toHaveLength(1);
  expect(container.querySelector(".plotbox circle.cdot title")?.textContent).toBe("I live in Lisbon.");
});

it("a turn shows what was added, why, and exactly which text", async () => {
  const row: Schemas["TurnRow"] = {
    id: 7,
    session: "s",
    kind: "main",
    turn: 1,
    step: 0,
    dialect: "openai-chat",
    upstream_dialect: "openai-chat",
    started_ms: 0,
    first_byte_ms: 640,
    finished_ms: 9200,
    outcome: "ok",
    model_sent: "m",
    tokens: { input: 1000, output: 5, cache_read: 960 },
    additions: [{ kind: "skill", id: "pack-a-box", score: 0.86, why: "box", tokens: 118 }],
    request_bytes: 1,
    user_text: "pack <b>this</b>",
  };
  const block = "<metaclaw-context>\n## Skill: pack-a-box\nPacks a box.\n\nGaps.\n</metaclaw-context>";
  answers["GET /turns/7"] = () => [200, { ...row, headers: [], block, answer_text: "Packed." }];
  const { container } = render(TurnPlace, { turn: { no: 1, rows: [row] }, next: undefined, agent: "OpenClaw", side: [] });
  await waitFor(() => expect(screen.getByText("Packed.")).toBeTruthy());
  expect(container.querySelector(".hand")?.textContent).toContain("1 item, 118 tokens, after your message");
  expect(screen.getByText("Packs a box.")).toBeTruthy();
  expect(screen.getByText("Matches box. 118 tokens.")).toBeTruthy();
  expect(container.querySelector(".hand pre")?.textContent).toBe(block);
  expect(container.querySelector(".said b")).toBeNull();
  expect(container.textContent).toContain("96 %");
});
