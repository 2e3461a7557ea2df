// Keys: `/` search, `g` and a letter for the pages, `j` `k` rows, `u` undo, `?` the list. Never while a person types.
import { prefs } from "./prefs.svelte";
import { router, type Page } from "./router.svelte";
import { toasts } from "./toasts.svelte";

export const GO: Readonly<Record<string, Page>> = {
  h: "home",
  c: "conversations",
  s: "skills",
  m: "memory",
  t: "training",
  w: "schedule",
  n: "connections",
};

/** How long `g` waits for its letter, ms. */
const WAIT = 1200;

/** Rows of the list that has the focus, or of the first list of the page. */
function rows(): HTMLElement[] {
  const near = document.activeElement?.closest("[data-rows]");
  const box = near ?? document.querySelector("main [data-rows]");
  return box ? [...box.querySelectorAll<HTMLElement>("[data-row]")] : [];
}

/** Moves the focus in a list; from outside it begins at the chosen row. */
export function moveRow(step: 1 | -1 | "first" | "last"): void {
  const all = rows();
  if (all.length === 0) return;
  const at = all.findIndex((row) => row === document.activeElement);
  const chosen = all.findIndex((row) => row.getAttribute("aria-current") === "true");
  const from = at >= 0 ? at : chosen;
  const to = step === "first" ? 0 : step === "last" ? all.length - 1 : from < 0 ? 0 : from + step;
  const row = all[Math.max(0, Math.min(all.length - 1, to))];
  row?.focus();
  row?.scrollIntoView({ block: "nearest" });
}

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

export function listenKeys(help: () => void): () => void {
  let waiting = 0;
  const pressed = (event: KeyboardEvent): void => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const list = (event.target as HTMLElement | null)?.closest?.("[data-rows]");
    if (list && !typing(event.target)) {
      const step = ({ ArrowDown: 1, ArrowUp: -1, Home: "first", End: "last" } as const)[event.key];
      if (step !== undefined) {
        event.preventDefault();
        return moveRow(step);
      }
    }
    if (!prefs.keys || typing(event.target) || document.querySelector("dialog[open], [role=dialog]")) return;
    const after = waiting > 0 && Date.now() - waiting < WAIT;
    waiting = 0;
    const page = after ? GO[event.key] : undefined;
    if (page) {
      event.preventDefault();
      return router.go(page);
    }
    switch (event.key) {
      case "g":
        waiting = Date.now();
        return;
      case "/": {
        const field = document.querySelector<HTMLInputElement>("main [data-search]");
        if (!field) return;
        event.preventDefault();
        field.focus();
        field.select();
        return;
      }
      case "j":
        event.preventDefault();
        return moveRow(1);
      case "k":
        event.preventDefault();
        return moveRow(-1);
      case "u":
        event.preventDefault();
        void toasts.undo();
        return;
      case "?":
        event.preventDefault();
        help();
        return;
    }
  };
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}
