// The service as this window sees it: its status, whether it is reachable, and what just happened. One event stream feeds
// all pages; a page that shows a list subscribes and decides itself when to read again.
import { api, Failure, get, transport, type ApiEvent, type Schemas } from "../backend";

export type Link = "connecting" | "up" | "down" | "unauthorized";

/** How many events a window remembers without asking the journal again. */
const REMEMBERED = 200;
/** A status older than this is read again when the window is looked at, ms. */
const STALE = 30_000;

class Live {
  link: Link = $state("connecting");
  status: Schemas["Status"] | null = $state.raw(null);
  /** When the status was read, ms since 1970. */
  statusAt = $state(0);
  /** Why the status could not be read. */
  failure: Failure | null = $state.raw(null);
  /** Skill files with something wrong, for the count in the navigation. */
  skillFindings = $state(0);
  /** Memory in figures, for the count of what is held back. */
  memory: Schemas["MemoryStats"] | null = $state.raw(null);
  /** Learned skills and what waits for a yes. */
  learning: Schemas["Learning"] | null = $state.raw(null);
  /** What happened while the window is open, newest first. */
  events: readonly ApiEvent[] = $state.raw([]);
  /** Moves once a minute and after waking, so that times and the day sheet stay true. */
  now = $state(Date.now());

  #listeners = new Set<(event: ApiEvent | null) => void>();
  #stop: (() => void) | null = null;
  #reading: Promise<void> | null = null;

  start(): void {
    if (this.#stop) return;
    void this.refresh();
    const stopEvents = transport.listen({
      open: () => {
        const again = this.link === "down";
        this.link = "up";
        void this.refresh();
        if (again) this.#tell(null);
      },
      event: (event) => {
        this.events = [event, ...this.events].slice(0, REMEMBERED);
        if (event.kind !== "turn_finished") void this.refresh();
        this.#tell(event);
      },
      lost: (reason) => {
        if (reason === "missed") return this.#tell(null);
        this.link = reason === "unauthorized" ? "unauthorized" : "down";
      },
    });
    const tick = setInterval(() => {
      this.now = Date.now();
      if (Date.now() - this.statusAt > STALE && !document.hidden) void this.refresh();
    }, 20_000);
    const woke = (): void => {
      if (document.hidden) return;
      this.now = Date.now();
      if (Date.now() - this.statusAt > STALE) void this.refresh();
    };
    document.addEventListener("visibilitychange", woke);
    this.#stop = () => {
      stopEvents();
      clearInterval(tick);
      document.removeEventListener("visibilitychange", woke);
    };
  }

  stop(): void {
    this.#stop?.();
    this.#stop = null;
  }

  /** After a new token. */
  restart(): void {
    this.stop();
    this.link = "connecting";
    this.start();
  }

  /** Calls back for every event; with null when events were missed and everything should be read again. */
  subscribe(listener: (event: ApiEvent | null) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #tell(event: ApiEvent | null): void {
    for (const listener of this.#listeners) listener(event);
  }

  /** Reads the status; calls that overlap share one answer. */
  refresh(): Promise<void> {
    this.#reading ??= this.#read().finally(() => (this.#reading = null));
    return this.#reading;
  }

  async #read(): Promise<void> {
    try {
      this.status = await get(api.GET("/api/v1/status"));
      this.skillFindings = this.status.skills.unusable;
      this.statusAt = Date.now();
      this.failure = null;
      this.learning = await get(api.GET("/api/v1/skills-learning")).catch((): Schemas["Learning"] | null => this.learning);
      this.memory = await get(api.GET("/api/v1/memory/stats", { params: { query: {} } })).catch((): Schemas["MemoryStats"] | null => this.memory);
      if (this.link !== "up" && transport.kind === "ipc") this.link = "up";
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      this.failure = error;
      if (error.status === 401) this.link = "unauthorized";
      else if (error.unreachable) this.link = "down";
    }
  }
}

export const live = new Live();
