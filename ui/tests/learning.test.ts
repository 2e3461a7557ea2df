import { fireEvent, render, screen, waitFor } from "@testing-library/svelte";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { transport, type Schemas } from "../src/backend";
import EffectPlot from "../src/parts/EffectPlot.svelte";
import ProposalView from "../src/parts/ProposalView.svelte";
import { clear, diffLines, findingText, reach, signed, standing, type Effect } from "../src/state/learning";
import { prefs } from "../src/state/prefs.svelte";
import { toasts } from "../src/state/toasts.svelte";

const effect = (more: Partial<Effect>): Effect => ({ name: "a", agent: "", uses: 8, wins: 7, control: 6, control_wins: 2, drawn: 0, drawn_wins: 0, tokens: 400, effect: 0.14, low: 0.03, high: 0.25, helps: 0.9, verdict: "open", for_help: 4, for_harm: 0.1, replays: [], ...more });

beforeEach(() => prefs.set({ lang: "en" }));

describe("effects", () => {
  it("share one axis that holds the widest interval", () => {
    expect(reach([effect({}), effect({ low: -0.4, high: 0.1 })])).toBe(0.5);
    expect(reach([effect({ effect: null, low: null, high: null })])).toBe(0.05);
    expect([signed(0.14), signed(-0.06), signed(0.001)]).toEqual(["+0.14", "−0.06", "0.00"]);
    expect([clear(0.01, 0.2), clear(-0.2, -0.01), clear(-0.1, 0.2)]).toEqual([true, true, false]);
  });
  it("are a filled dot when clear of 0, a hollow one when not, and nothing before they are known", () => {
    const dot = (one: Effect | undefined): [number, number, string | null] => {
      const { container, unmount } = render(EffectPlot, { effect: one, reach: 0.25 });
      const svg = container.querySelector("svg");
      const found: [number, number, string | null] = [container.querySelectorAll(".dot").length, container.querySelectorAll(".hollow").length, svg?.getAttribute("aria-label") ?? null];
      unmount();
      return found;
    };
    expect(dot(effect({}))).toEqual([1, 0, "effect +0.14, 95 % interval +0.03 to +0.25"]);
    expect(dot(effect({ low: -0.03 }))).toEqual([0, 1, "effect +0.14, 95 % interval −0.03 to +0.25"]);
    expect(dot(undefined)).toEqual([0, 0, "no effect measured yet"]);
  });
});

it("a skill stands where the library and what was learned of it say together", () => {
  const row = { name: "a", description: "", category: "", enabled: true, manual: false, origin: "user", path: "", tokens: 1, agents: [] };
  const learned = { name: "a", state: "trial", agent: "", since_ms: 0, reason: "", version: 1, source: "user", session: null };
  expect(standing(row, learned).word).toBe("On trial");
  expect(standing({ ...row, enabled: false }, learned).word).toBe("Off");
  expect(standing(undefined, { ...learned, state: "retired" }).word).toBe("Retired");
  expect(standing(row, undefined).word).toBe("In use");
});

it("findings are whole sentences", () => {
  expect(findingText({ file: "", line: null, severity: "info", message: "the body says next to nothing", fix: "say it in a few clear steps" })).toBe("The body says next to nothing. Say it in a few clear steps.");
  expect(findingText({ file: "", line: null, severity: "error", message: "It has no name.", fix: "" })).toBe("It has no name.");
});

it("a unified diff has the numbers of both texts", () => {
  expect(diffLines("--- a\n+++ b\n@@ -2,3 +2,3 @@\n one\n-two\n+2\n three\n")).toEqual([
    { sign: " ", no: 2, text: "one" },
    { sign: "-", no: 3, text: "two" },
    { sign: "+", no: 3, text: "2" },
    { sign: " ", no: 4, text: "three" },
  ]);
  expect(diffLines("")).toEqual([]);
});

describe("a proposal", () => {
  const asked: { what: string; body: unknown }[] = [];
  let detail: Schemas["ProposalDetail"];
  beforeEach(() => {
    asked.length = 0;
    detail = { id: 3, at_ms: Date.now(), kind: "create", name: "check-timezone", agent: "openclaw", state: "waiting", hold: null, reason: "The zone was corrected.", decided_ms: null, text: "---\nname: check-timezone\ndescription: Use when cron is written.\n---\n\nSay the zone.\n", diff: "", findings: [], source: "user", session: "s", turns: [7], model: "m", reply: "{}" };
    vi.spyOn(transport, "fetch").mockImplementation(async (request) => {
      const url = new URL(request.url);
      const what = `${request.method} ${url.pathname.replace("/api/v1", "")}`;
      const text = await request.text();
      asked.push({ what, body: text === "" ? null : JSON.parse(text) });
      const known: Record<string, unknown> = {
        "GET /skills-proposals/3": detail,
        "GET /config/skills.control_share": { key: "skills.control_share", value: 0.2 },
        "POST /skills-proposals/3/approve": { name: "check-timezone", state: "trial", reason: "" },
        "POST /skills-proposals/3/reject": { ...detail, state: "rejected" },
        "POST /skills/check-timezone/revert": { moved: [], descendants: [] },
      };
      const value = known[what];
      return new Response(JSON.stringify(value ?? { code: "not_found", message: "gone" }), { status: value ? 200 : 404, headers: { "content-type": "application/json" } });
    });
  });
  afterEach(() => {
    vi.restoreAllMocks();
    toasts.close();
  });
  const sent = (what: string): unknown[] => asked.filter((one) => one.what === what).map((one) => one.body);

  it("is started for its agent or for all, and taken back by undo", async () => {
    render(ProposalView, { id: 3, onchanged: vi.fn() });
    await waitFor(() => expect(screen.getByText(/left out of 20 %/)).toBeTruthy());
    await fireEvent.click(screen.getByLabelText("For every agent, not only OpenClaw"));
    await fireEvent.click(screen.getByText("Start trial"));
    await waitFor(() => expect(sent("POST /skills-proposals/3/approve")).toEqual([{ agents: [] }]));
    await waitFor(() => expect(toasts.current?.undo).toBeTruthy());
    await toasts.undo();
    expect(sent("POST /skills/check-timezone/revert")).toEqual([{ version: null, descendants: false }]);
  });

  it("is rejected only after asking", async () => {
    render(ProposalView, { id: 3, onchanged: vi.fn() });
    await waitFor(() => expect(screen.getByText("Reject")).toBeTruthy());
    await fireEvent.click(screen.getByText("Reject"));
    expect(sent("POST /skills-proposals/3/reject")).toHaveLength(0);
    await fireEvent.click(screen.getAllByText("Reject").at(-1) as HTMLElement);
    await waitFor(() => expect(sent("POST /skills-proposals/3/reject")).toHaveLength(1));
  });

  it("from an import is not in MetaClaw's hand, and one that is held back says so", async () => {
    detail = { ...detail, kind: "import", source: "import", hold: "quarantine", turns: [] };
    const { container } = render(ProposalView, { id: 3, onchanged: vi.fn() });
    await waitFor(() => expect(screen.getByText("From an import")).toBeTruthy());
    expect(container.querySelector(".hand")).toBeNull();
    expect(container.querySelector(".strip")?.textContent).toContain("Held back");
  });

  it("that is decided cannot be decided again", async () => {
    detail = { ...detail, state: "rejected", decided_ms: Date.now() };
    render(ProposalView, { id: 3, onchanged: vi.fn() });
    await waitFor(() => expect(screen.getByText(/^Rejected today/)).toBeTruthy());
    expect(screen.queryByText("Start trial")).toBeNull();
  });
});
