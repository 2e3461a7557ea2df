// Where the parts of a JSON body stand, so that a page can show exact bytes and exact lengths instead of a re-written
// copy. Assumes valid JSON (the service stored it); anything else gives no parts.

export interface Span {
  /** Member name; for elements their index. */
  key: string;
  start: number;
  end: number;
}

/** End of the value that begins at `at`. */
function skip(text: string, at: number): number {
  const first = text[at];
  if (first === '"') return skipString(text, at);
  if (first !== "{" && first !== "[") {
    let end = at;
    while (end < text.length && !",]} \n\r\t".includes(text[end] ?? "")) end++;
    return end;
  }
  let depth = 0;
  for (let i = at; i < text.length; i++) {
    const c = text[i];
    if (c === '"') i = skipString(text, i) - 1;
    else if (c === "{" || c === "[") depth++;
    else if (c === "}" || c === "]") {
      depth--;
      if (depth === 0) return i + 1;
    }
  }
  return text.length;
}

function skipString(text: string, at: number): number {
  for (let i = at + 1; i < text.length; i++) {
    if (text[i] === "\\") i++;
    else if (text[i] === '"') return i + 1;
  }
  return text.length;
}

function blank(text: string, at: number): number {
  while (at < text.length && " \n\r\t".includes(text[at] ?? "")) at++;
  return at;
}

/** Members of the object, or elements of the array, that begins at `from`. */
export function parts(text: string, from = 0): Span[] {
  let at = blank(text, from);
  const open = text[at];
  if (open !== "{" && open !== "[") return [];
  const close = open === "{" ? "}" : "]";
  const found: Span[] = [];
  at = blank(text, at + 1);
  while (at < text.length && text[at] !== close) {
    let key = String(found.length);
    if (open === "{") {
      const end = skipString(text, at);
      try {
        key = JSON.parse(text.slice(at, end)) as string;
      } catch {
        return found;
      }
      at = blank(text, end);
      if (text[at] !== ":") return found;
      at = blank(text, at + 1);
    }
    const end = skip(text, at);
    found.push({ key, start: at, end });
    at = blank(text, end);
    if (text[at] !== ",") break;
    at = blank(text, at + 1);
  }
  return found;
}

const encoder = new TextEncoder();
/** Length in bytes, as it is on the wire. */
export const bytes = (text: string): number => encoder.encode(text).length;
