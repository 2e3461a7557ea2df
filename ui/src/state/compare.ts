// A request as the agent sent it beside what went to the model, cut into rows: what is the same on both sides is one
// line, what was added stands literally. Reads both bodies by spans, so lengths are the true ones.
import { bytes, parts, type Span } from "./spans";

export type Row =
  | { kind: "same"; what: "system" | "tools" | "messages" | "rest"; count: number; bytes: number }
  /** Earlier messages that carry what was added to them then. */
  | { kind: "grown"; what: "messages"; count: number; bytes: number; more: number }
  | { kind: "literal"; sent: string; forwarded: string }
  | { kind: "added"; text: string; bytes: number }
  | { kind: "gone"; text: string }
  | { kind: "rest"; sent: string; forwarded: string };

interface Body {
  text: string;
  top: Map<string, Span>;
  messages: Span[];
}

function read(text: string): Body {
  const top = new Map(parts(text).map((span) => [span.key, span]));
  const list = top.get("messages") ?? top.get("input");
  return { text, top, messages: list ? parts(text, list.start) : [] };
}

const cut = (body: Body, span: Span): string => body.text.slice(span.start, span.end);

/** The words of a message: its string content, or its text parts. */
export function words(json: string): string[] {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return [json];
  }
  const content = typeof value === "object" && value !== null && "content" in value ? value.content : value;
  if (typeof content === "string") return [content];
  if (!Array.isArray(content)) return [JSON.stringify(content, null, 1)];
  return content.map((part: unknown) =>
    typeof part === "object" && part !== null && "text" in part && typeof part.text === "string" ? part.text : JSON.stringify(part),
  );
}

/** Where two texts begin to differ, and where they are the same again. */
function difference(a: string, b: string): { head: number; tail: number } {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  return { head, tail };
}

export function compare(sentText: string, forwardedText: string): Row[] {
  const [sent, forwarded] = [read(sentText), read(forwardedText)];
  const rows: Row[] = [];
  for (const key of ["system", "instructions"]) side(key, "system");
  side("tools", "tools");

  const both = Math.min(sent.messages.length, forwarded.messages.length);
  // The last message that was changed is the turn's own; changed ones before it were changed in earlier turns.
  const changed: number[] = [];
  for (let i = 0; i < both; i++) {
    const [a, b] = [sent.messages[i], forwarded.messages[i]];
    if (a && b && cut(sent, a) !== cut(forwarded, b)) changed.push(i);
  }
  const own = changed.at(-1) ?? lastUser(sent);
  run(0, own);
  if (own < both) message(own);
  run(own + 1, both);
  for (const extra of forwarded.messages.slice(both)) rows.push({ kind: "added", text: words(cut(forwarded, extra)).join("\n"), bytes: extra.end - extra.start });

  const rest = (body: Body): string =>
    [...body.top.values()]
      .filter((span) => !["messages", "input", "system", "instructions", "tools"].includes(span.key))
      .map((span) => `${JSON.stringify(span.key)}: ${cut(body, span)}`)
      .join(",\n");
  const [a, b] = [rest(sent), rest(forwarded)];
  if (a !== "" || b !== "") rows.push({ kind: "rest", sent: a, forwarded: b });
  return rows;

  function side(key: string, what: "system" | "tools"): void {
    const [a, b] = [sent.top.get(key), forwarded.top.get(key)];
    if (!a && !b) return;
    const [was, is] = [a ? cut(sent, a) : "", b ? cut(forwarded, b) : ""];
    if (was === is && a) rows.push({ kind: "same", what, count: what === "tools" ? parts(sent.text, a.start).length : 1, bytes: bytes(was) });
    else texts(words(was), words(is));
  }

  /** Messages from one index to another, as one row; a system message in front stands for itself. */
  function run(from: number, to: number): void {
    let start = from;
    if (from === 0 && to > 0) {
      const first = sent.messages[0];
      const there = forwarded.messages[0];
      if (first && there && /"role"\s*:\s*"(system|developer)"/.test(cut(sent, first)) && cut(sent, first) === cut(forwarded, there)) {
        rows.push({ kind: "same", what: "system", count: 1, bytes: bytes(cut(sent, first)) });
        start = 1;
      }
    }
    if (start >= to) return;
    let [was, is] = [0, 0];
    for (let i = start; i < to; i++) {
      const [a, b] = [sent.messages[i], forwarded.messages[i]];
      if (a) was += bytes(cut(sent, a));
      if (b) is += bytes(cut(forwarded, b));
    }
    const count = to - start;
    if (was === is) rows.push({ kind: "same", what: "messages", count, bytes: was });
    else rows.push({ kind: "grown", what: "messages", count, bytes: was, more: is - was });
  }

  function message(index: number): void {
    const [a, b] = [sent.messages[index], forwarded.messages[index]];
    if (a && b) texts(words(cut(sent, a)), words(cut(forwarded, b)));
  }

  function texts(was: string[], is: string[]): void {
    for (let i = 0; i < Math.max(was.length, is.length); i++) {
      const [a, b] = [was[i], is[i]];
      if (a === undefined && b !== undefined) rows.push({ kind: "added", text: b, bytes: bytes(b) });
      else if (b === undefined && a !== undefined) rows.push({ kind: "gone", text: a });
      else if (a !== undefined && b !== undefined) {
        const { head, tail } = difference(a, b);
        if (a === b) rows.push({ kind: "literal", sent: a, forwarded: b });
        else if (head + tail === a.length) {
          // Only put in: what stood before, the new text, what stood after.
          const added = b.slice(head, b.length - tail);
          if (head > 0) rows.push({ kind: "literal", sent: a.slice(0, head), forwarded: b.slice(0, head) });
          rows.push({ kind: "added", text: added.trim(), bytes: bytes(added) });
          if (tail > 0) rows.push({ kind: "literal", sent: a.slice(head), forwarded: b.slice(b.length - tail) });
        } else rows.push({ kind: "literal", sent: a, forwarded: b });
      }
    }
  }
}

function lastUser(body: Body): number {
  for (let i = body.messages.length - 1; i >= 0; i--) {
    const span = body.messages[i];
    if (span && /"role"\s*:\s*"user"/.test(cut(body, span))) return i;
  }
  return body.messages.length;
}
