// The first run: seven steps, one answer sheet. What is answered is kept in this browser until it is written, so that the
// window can be closed and the setup goes on where it was left. The key is never kept.
import { api, Failure, get, type Schemas } from "../backend";
import { Loaded } from "./loaded.svelte";

export const STEPS = ["agent", "provider", "key", "skills", "memory", "training", "connect"] as const;
export type Step = (typeof STEPS)[number];

interface Kept {
  agent: string;
  provider: string;
  apiBase: string;
  model: string;
  dialect: string;
  skills: boolean;
  memory: boolean;
}

const PLACE = "metaclaw.setup";

class Setup {
  agent = $state("openclaw");
  provider = $state("");
  apiBase = $state("");
  model = $state("");
  dialect = $state("auto");
  skills = $state(true);
  memory = $state(false);
  /** What the config says of memory; only another answer is written. */
  #memoryWas: boolean | null = null;
  /** Only in memory. */
  key = $state("");
  useEnv = $state(false);

  readonly state = new Loaded<Schemas["SetupState"]>();
  readonly providers = new Loaded<Schemas["Provider"][]>();
  readonly local = new Loaded<Schemas["LocalServer"][]>();
  /** The models that MetaClaw runs itself: those that are here, and those that can be fetched. */
  readonly models = new Loaded<Schemas["Models"]>();
  readonly test = new Loaded<Schemas["ProviderReport"]>();
  readonly ordered = new Loaded<Schemas["FetchState"]>();
  readonly written = new Loaded<Schemas["SetupReport"]>();

  readonly preset = $derived(this.providers.value?.find((one) => one.id === this.provider));
  readonly found = $derived(this.local.value?.find((one) => one.provider === this.provider));
  readonly offer = $derived(this.provider === "builtin" ? this.models.value?.offers.find((one) => one.id === this.model) : undefined);
  /** The built-in model is chosen and here. */
  readonly boxed = $derived(this.provider === "builtin" && (this.models.value?.kept ?? []).some((one) => one.id === this.model));
  readonly fetching = $derived(this.models.value?.fetching?.running === true ? this.models.value.fetching : undefined);
  readonly needsKey = $derived(this.preset ? !this.preset.local : this.provider === "custom");

  constructor() {
    try {
      const kept: unknown = JSON.parse(localStorage.getItem(PLACE) ?? "null");
      if (typeof kept === "object" && kept !== null) this.#take(kept as Partial<Kept>);
    } catch {
      // Nothing was kept.
    }
  }

  #take(kept: Partial<Kept>): void {
    for (const name of ["agent", "provider", "apiBase", "model", "dialect"] as const) if (typeof kept[name] === "string") this[name] = kept[name];
    if (typeof kept.skills === "boolean") this.skills = kept.skills;
    if (typeof kept.memory === "boolean") this.memory = kept.memory;
  }

  keep(): void {
    const { agent, provider, apiBase, model, dialect, skills, memory } = this;
    try {
      localStorage.setItem(PLACE, JSON.stringify({ agent, provider, apiBase, model, dialect, skills, memory } satisfies Kept));
    } catch {
      // The answers then live as long as the window.
    }
  }

  /** Reads how far the config is; what it says already is the answer until the person gives another. */
  async read(): Promise<void> {
    const [state, remembers] = await Promise.all([
      this.state.read(() => get(api.GET("/api/v1/setup"))),
      get(api.GET("/api/v1/config/{key}", { params: { path: { key: "memory.enabled" }, query: {} } })).catch(() => null),
      this.providers.read(() => get(api.GET("/api/v1/providers"))),
      this.look(),
    ]);
    if (this.#memoryWas === null && typeof remembers?.value === "boolean") {
      this.#memoryWas = remembers.value;
      if (remembers.value) this.memory = true;
    }
    if (state && this.provider === "") {
      if (state.configured && state.provider) {
        this.provider = state.provider;
        this.apiBase = state.api_base;
        this.model = state.model_id;
      }
      this.agent = state.claw_type;
      this.skills = state.skills;
    }
    // A server that answers here is the choice that needs nothing.
    const first = this.local.value?.find((one) => one.models.length > 0);
    if (this.provider === "" && first) this.choose(first.provider);
  }

  async look(): Promise<void> {
    await Promise.all([
      this.local.read(() => get(api.GET("/api/v1/providers/local"))),
      this.models.read(() => get(api.GET("/api/v1/models", { params: { query: { look: false } } }))),
    ]);
    if (this.fetching) void this.#follow();
  }

  /** The model inside MetaClaw, to try it without a key. */
  tryOut(model: string): void {
    this.choose("builtin");
    this.model = model;
    this.test.clear();
    this.keep();
    if (this.boxed) void this.ask();
  }

  /** Fetches the chosen model. Called by the button that says what comes, and by nothing else. */
  async fetchModel(): Promise<void> {
    const id = this.model;
    this.test.clear();
    const begun = await this.ordered.read(() => get(api.POST("/api/v1/models/fetch", { body: { id, agreed: true } })));
    if (begun) await this.#follow();
  }

  /** Calls the fetch off; what has come stays for the next time. */
  async callOff(): Promise<void> {
    await get(api.DELETE("/api/v1/models/fetch")).catch((error: unknown) => {
      // It ended by itself a moment ago.
      if (!(error instanceof Failure && error.status === 404)) throw error;
    });
    await this.models.read(() => get(api.GET("/api/v1/models", { params: { query: { look: false } } })));
  }

  #following = false;
  /** Watches a fetch to its end; a model that came is asked for a word. */
  async #follow(): Promise<void> {
    if (this.#following) return;
    this.#following = true;
    try {
      await this.#watch();
    } finally {
      this.#following = false;
    }
    if (this.boxed) void this.ask();
  }

  async #watch(): Promise<void> {
    for (;;) {
      const models = await this.models.read(() => get(api.GET("/api/v1/models", { params: { query: { look: false } } })));
      if (!models?.fetching?.running) return;
      await new Promise((done) => setTimeout(done, 400));
    }
  }

  choose(provider: string): void {
    if (provider === this.provider) return;
    this.provider = provider;
    this.test.clear();
    this.key = "";
    const local = this.local.value?.find((one) => one.provider === provider);
    this.apiBase = local?.api_base ?? this.preset?.api_base ?? "";
    this.model = local?.models[0] ?? this.preset?.model_id ?? "";
    this.dialect = "auto";
    this.useEnv = this.preset?.key_env_set ?? false;
    this.keep();
    // A server of this machine costs nothing, so it is asked at once.
    if (local && local.models.length > 0) void this.ask();
  }

  get keyAnswer(): string | null {
    if (this.useEnv && this.preset?.key_env) return `env:${this.preset.key_env}`;
    return this.key.trim() === "" ? null : this.key.trim();
  }

  async ask(): Promise<boolean> {
    const body: Schemas["ProviderTest"] = { provider: this.provider, models_only: false };
    if (this.apiBase) body.api_base = this.apiBase;
    if (this.model) body.model_id = this.model;
    if (this.dialect !== "auto") body.dialect = this.dialect;
    if (this.keyAnswer) body.api_key = this.keyAnswer;
    const report = await this.test.read(() => get(api.POST("/api/v1/providers/test", { body })));
    if (report?.ok && this.model === "" && report.models[0]) this.model = report.models[0];
    return report?.ok ?? false;
  }

  #answers(): Record<string, unknown> {
    const answers: Record<string, unknown> = { provider: this.provider, model: this.model, base_url: this.apiBase, agent: this.agent, skills: this.skills };
    if (this.dialect !== "auto") answers["dialect"] = this.dialect;
    if (this.keyAnswer) answers["api_key"] = this.keyAnswer;
    if (this.memory !== (this.#memoryWas ?? false)) answers["memory"] = this.memory;
    return answers;
  }

  /** What would be written, or (with `write`) writes it. */
  async answer(write: boolean): Promise<Schemas["SetupReport"] | undefined> {
    return this.written.read(() => get(api.POST("/api/v1/setup", { body: { answers: this.#answers(), dry_run: !write, test: false } })));
  }

  done(): void {
    this.key = "";
    try {
      localStorage.removeItem(PLACE);
    } catch {
      // Nothing was kept.
    }
  }
}

export const setup = new Setup();
