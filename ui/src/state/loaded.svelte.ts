// Something read from the service: the value, why the last reading failed, and whether one is under way. Old values stay
// visible while a new reading runs or after it failed; an answer that was overtaken by a later call is dropped.
import { Failure } from "../backend";

export class Loaded<T> {
  value: T | undefined = $state.raw();
  failure: Failure | null = $state.raw(null);
  loading = $state(false);
  /** When the value was read, ms since 1970. */
  at = $state(0);
  #call = 0;

  async read(work: () => Promise<T>): Promise<T | undefined> {
    const call = ++this.#call;
    this.loading = true;
    try {
      const value = await work();
      if (call !== this.#call) return undefined;
      this.value = value;
      this.at = Date.now();
      this.failure = null;
      return value;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (call === this.#call) this.failure = error;
      return undefined;
    } finally {
      if (call === this.#call) this.loading = false;
    }
  }

  clear(): void {
    this.#call++;
    this.value = undefined;
    this.failure = null;
    this.loading = false;
  }
}
