// The one toast: something was done, and this takes it back. Stays ten seconds, and while it is hovered or focused.

export interface Toast {
  id: number;
  text: string;
  undo: (() => Promise<void>) | null;
}

/** How long a toast stays, ms. */
export const STAY = 10_000;

class Toasts {
  current: Toast | null = $state.raw(null);
  #next = 1;
  #timer: ReturnType<typeof setTimeout> | undefined;

  say(text: string, undo: (() => Promise<void>) | null = null): void {
    this.current = { id: this.#next++, text, undo };
    this.resume();
  }

  hold(): void {
    clearTimeout(this.#timer);
  }

  resume(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.close(), STAY);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.current = null;
  }

  /** Takes the last thing back, if it can be. */
  async undo(): Promise<void> {
    const undo = this.current?.undo;
    if (!undo) return;
    this.close();
    await undo();
  }
}

export const toasts = new Toasts();
