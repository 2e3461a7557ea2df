// The one door to the service. Two transports with the same two operations: HTTP with a bearer token (a browser), and
// Tauri's IPC (the desktop window). Everything above sees a typed client and a stream of events.
import { Channel, invoke, isTauri } from "@tauri-apps/api/core";
import createClient, { type Client } from "openapi-fetch";
import type { components, paths } from "./api/schema";

export type Schemas = components["schemas"];
export type ApiEvent = Schemas["Event"];
export type Problem = Schemas["Problem"];
export type Api = Client<paths>;

/** A request over IPC, answered by the shell in process. */
export interface IpcRequest {
  method: string;
  /** Path and query, from `/api/v1/`. */
  path: string;
  body: string | null;
}

/** The answer over IPC. */
export interface IpcResponse {
  status: number;
  content_type: string | null;
  body: string;
}

/** What an event listener hears. `open` and `lost` tell of the stream itself. */
export interface Listener {
  open(): void;
  event(event: ApiEvent): void;
  /** The stream broke, or events were missed: what is shown may be old. */
  lost(reason: "down" | "missed" | "unauthorized"): void;
}

export interface Transport {
  readonly kind: "http" | "ipc";
  fetch(request: Request): Promise<Response>;
  /** Listens until the returned function is called; reconnects by itself. */
  listen(listener: Listener): () => void;
}

/** Longest pause between two tries to reach the event stream again, ms. */
const LONGEST_PAUSE = 8000;

/** Loopback HTTP behind a bearer token. */
export function httpTransport(token: () => string | null, base = "", fetcher: typeof fetch = (...a) => fetch(...a)): Transport {
  const authorised = (request: Request): Promise<Response> => {
    const headers = new Headers(request.headers);
    const shown = token();
    if (shown) headers.set("authorization", `Bearer ${shown}`);
    return fetcher(new Request(request, { headers, cache: "no-store" }));
  };
  return {
    kind: "http",
    fetch: authorised,
    listen(listener) {
      const ended = new AbortController();
      void (async () => {
        let pause = 250;
        while (!ended.signal.aborted) {
          let reason: "down" | "unauthorized" = "down";
          try {
            const url = new URL(`${base}/api/v1/events/stream`, location.href);
            const response = await authorised(new Request(url, { signal: ended.signal, headers: { accept: "text/event-stream" } }));
            if (response.ok && response.body) {
              pause = 250;
              listener.open();
              for await (const event of serverSentEvents(response.body)) {
                if (event.kind === "missed") listener.lost("missed");
                else listener.event(JSON.parse(event.data) as ApiEvent);
              }
            } else if (response.status === 401) {
              reason = "unauthorized";
            }
          } catch {
            // A stream that breaks is an everyday event: the service stopped or restarted.
          }
          if (ended.signal.aborted) return;
          listener.lost(reason);
          await new Promise((done) => setTimeout(done, pause));
          pause = Math.min(pause * 2, LONGEST_PAUSE);
        }
      })();
      return () => ended.abort();
    },
  };
}

/** Tauri's IPC: command `api` for requests, command `api_events` with a channel for events. */
export function ipcTransport(): Transport {
  return {
    kind: "ipc",
    async fetch(request) {
      const url = new URL(request.url);
      const body = request.method === "GET" || request.method === "HEAD" ? null : await request.text();
      const asked: IpcRequest = { method: request.method, path: url.pathname + url.search, body: body === "" ? null : body };
      const answer = await invoke<IpcResponse>("api", { request: asked });
      const headers = new Headers();
      if (answer.content_type) headers.set("content-type", answer.content_type);
      const empty = answer.status === 204 || answer.status === 304;
      return new Response(empty ? null : answer.body, { status: answer.status, headers });
    },
    listen(listener) {
      let on = true;
      const channel = new Channel<{ kind: string; data: string }>();
      channel.onmessage = ({ kind, data }) => {
        if (!on) return;
        if (kind === "open") listener.open();
        else if (kind === "lost") listener.lost("down");
        else if (kind === "missed") listener.lost("missed");
        else listener.event(JSON.parse(data) as ApiEvent);
      };
      invoke("api_events", { channel }).catch(() => {
        if (on) listener.lost("down");
      });
      return () => {
        on = false;
      };
    },
  };
}

/** The events of a `text/event-stream` body. */
export async function* serverSentEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<{ kind: string; data: string }> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let kind = "";
  let data: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      // A carriage return at the end may be half a line end: it waits for the next chunk.
      const held = rest.endsWith("\r") ? "\r" : "";
      const lines = rest.slice(0, rest.length - held.length).split(/\r\n|\r|\n/);
      rest = (lines.pop() ?? "") + held;
      for (const line of lines) {
        if (line === "") {
          if (data.length > 0) yield { kind, data: data.join("\n") };
          kind = "";
          data = [];
        } else if (line.startsWith("event:")) {
          kind = line.slice(6).replace(/^ /, "");
        } else if (line.startsWith("data:")) {
          data.push(line.slice(5).replace(/^ /, ""));
        }
      }
    }
  } finally {
    reader.releaseLock();
  }
}

const TOKEN = "metaclaw.token";

/** Takes `#token=…` out of the address and keeps it for this tab only. */
export function takeToken(): void {
  const found = /^#token=([0-9A-Za-z._~-]+)(?:&(.*))?$/.exec(location.hash);
  if (!found?.[1]) return;
  sessionStorage.setItem(TOKEN, found[1]);
  history.replaceState(null, "", `${location.pathname}${location.search}#${found[2] ?? "/"}`);
}

/** A token was given in this tab. */
export const hasToken = (): boolean => sessionStorage.getItem(TOKEN) !== null;

export function setToken(token: string): void {
  sessionStorage.setItem(TOKEN, token.trim());
}

export const transport: Transport = isTauri() ? ipcTransport() : httpTransport(() => sessionStorage.getItem(TOKEN));

/** The typed client. Paths begin at the page's own origin; over IPC the origin is not used. */
export const api: Api = createClient<paths>({
  baseUrl: typeof location === "undefined" ? "http://localhost" : location.origin,
  fetch: (request) => transport.fetch(request),
});

/** A failed call, as pages show it. */
export class Failure extends Error {
  constructor(
    readonly problem: Problem,
    /** HTTP status; 0 = the service was not reached. */
    readonly status: number,
  ) {
    super(problem.message);
  }
  get unreachable(): boolean {
    return this.status === 0;
  }
}

/** The data of a call, or a `Failure`. */
export async function get<T>(call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  let result: { data?: T; error?: unknown; response: Response };
  try {
    result = await call;
  } catch (error) {
    throw new Failure({ code: "not_running", message: error instanceof Error ? error.message : String(error) }, 0);
  }
  const { data, error, response } = result;
  if (response.ok && data !== undefined) return data;
  throw new Failure(isProblem(error) ? error : { code: "internal", message: `HTTP ${response.status}` }, response.status);
}

function isProblem(value: unknown): value is Problem {
  return typeof value === "object" && value !== null && "code" in value && "message" in value && typeof value.message === "string";
}
