// Where the window is: the fragment of the address, `#/page/part?name=value`. Works the same from a file, in the desktop
// window and in a browser.

export const PAGES = ["home", "conversations", "skills", "memory", "training", "schedule", "connections", "settings", "setup"] as const;
export type Page = (typeof PAGES)[number];

export interface Place {
  page: Page;
  /** What of the page: session id, skill name, section. */
  parts: string[];
  query: URLSearchParams;
}

export function parse(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [first = "", ...parts] = path.split("/").filter((part) => part !== "").map(decode);
  const page = PAGES.find((known) => known === first) ?? "home";
  return { page, parts, query: new URLSearchParams(query) };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function href(page: Page, parts: readonly (string | number)[] = [], query: Record<string, string | undefined> = {}): string {
  const path = [page, ...parts].map((part) => encodeURIComponent(part)).join("/");
  const kept = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined && pair[1] !== "");
  const tail = new URLSearchParams(kept).toString();
  return `#/${path}${tail ? `?${tail}` : ""}`;
}

class Router {
  place: Place = $state.raw(parse(location.hash));
  /** Asked before leaving; false keeps the window where it is. Set by a page with unsaved words. */
  guard: (() => boolean) | null = null;
  #hash = location.hash;

  constructor() {
    addEventListener("hashchange", () => {
      if (location.hash === this.#hash) return;
      if (this.guard && !this.guard()) {
        history.replaceState(null, "", this.#hash || "#/home");
        return;
      }
      this.#hash = location.hash;
      this.place = parse(location.hash);
    });
  }

  go(page: Page, parts: readonly (string | number)[] = [], query: Record<string, string | undefined> = {}): void {
    location.hash = href(page, parts, query);
  }

  /** Changes the address without a new entry in the history. */
  replace(page: Page, parts: readonly (string | number)[] = [], query: Record<string, string | undefined> = {}): void {
    const hash = href(page, parts, query);
    history.replaceState(null, "", hash);
    this.#hash = hash;
    this.place = parse(hash);
  }
}

export const router = new Router();
