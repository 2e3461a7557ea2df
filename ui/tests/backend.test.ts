import { afterEach, describe, expect, it, vi } from "vitest";
import { httpTransport, serverSentEvents, takeToken, type Listener } from "../src/backend";

function stream(...chunks: string[]): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(encoder.encode(chunk));
      controller.close();
    },
  });
}
async function all(...chunks: string[]): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const event of serverSentEvents(stream(...chunks))) found.push(event);
  return found;
}

afterEach(() => vi.useRealTimers());

describe("server-sent events", () => {
  it("are the same however the bytes are cut", async () => {
    const text = 'event: turn_finished\ndata: {"a":\ndata: 1}\n\n: ping\n\nevent: x\r\ndata:y\r\n\r\n';
    const whole = await all(text);
    expect(whole).toEqual([
      { kind: "turn_finished", data: '{"a":\n1}' },
      { kind: "x", data: "y" },
    ]);
    for (let cut = 1; cut < text.length; cut++) expect(await all(text.slice(0, cut), text.slice(cut))).toEqual(whole);
  });

  it("keep characters that two chunks share", async () => {
    const bytes = new TextEncoder().encode("data: 今日\n\n");
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(new Uint8Array([byte]));
        controller.close();
      },
    });
    const found = [];
    for await (const event of serverSentEvents(body)) found.push(event.data);
    expect(found).toEqual(["今日"]);
  });

  it("drop a last event that was not ended", async () => {
    expect(await all("data: half\n")).toEqual([]);
  });
});

describe("HTTP", () => {
  it("sends the token as a bearer and nowhere else", async () => {
    const asked: Request[] = [];
    const fetcher = vi.fn((request: RequestInfo | URL) => {
      asked.push(request as Request);
      return Promise.resolve(new Response("{}"));
    });
    await httpTransport(() => "secret", "", fetcher).fetch(new Request("http://localhost/api/v1/status"));
    expect(asked[0]?.headers.get("authorization")).toBe("Bearer secret");
    expect(asked[0]?.url).toBe("http://localhost/api/v1/status");
  });

  it("comes back to the event stream and says when it was away", async () => {
    vi.useFakeTimers();
    const answers = [new Response(stream('event: a\ndata: {"kind":"a","at_ms":1,"data":{}}\n\n')), new Response(null, { status: 401 })];
    const heard: string[] = [];
    const listener: Listener = { open: () => heard.push("open"), event: (event) => heard.push(event.kind), lost: (why) => heard.push(why) };
    const stop = httpTransport(
      () => "t",
      "http://localhost",
      () => Promise.resolve(answers.shift() ?? new Response(null, { status: 503 })),
    ).listen(listener);
    await vi.advanceTimersByTimeAsync(10);
    expect(heard).toEqual(["open", "a", "down"]);
    await vi.advanceTimersByTimeAsync(300);
    expect(heard.at(-1)).toBe("unauthorized");
    stop();
  });
});

it("takes the token out of the address", () => {
  location.hash = "#token=abc123";
  takeToken();
  expect(location.hash).toBe("#/");
  expect(sessionStorage.getItem("metaclaw.token")).toBe("abc123");
});
