import { describe, expect, it } from "vitest";
import { compare } from "../src/state/compare";
import { curl } from "../src/state/curl";
import { prose } from "../src/state/prose";
import { bytes, parts } from "../src/state/spans";

describe("spans", () => {
  it("find members and elements where they stand", () => {
    const text = ' { "a" : [1, "}]\\"", {"b":[]}] , "é\\u0041": -1.5e3 ,"c":true}';
    const top = parts(text);
    expect(top.map((span) => [span.key, text.slice(span.start, span.end)])).toEqual([
      ["a", '[1, "}]\\"", {"b":[]}]'],
      ["éA", "-1.5e3"],
      ["c", "true"],
    ]);
    expect(parts(text, top[0]?.start).map((span) => text.slice(span.start, span.end))).toEqual(["1", '"}]\\""', '{"b":[]}']);
    expect(parts("[]")).toEqual([]);
    expect(parts("7")).toEqual([]);
  });
  it("count bytes, not characters", () => expect(bytes("é今")).toBe(5));
});

const system = { role: "system", content: "be careful" };
const body = (messages: unknown[], more: object = {}): string => JSON.stringify({ model: "a", messages, ...more });

describe("a request beside what was passed on", () => {
  it("shows equal parts as one line and added text literally", () => {
    const sent = body([system, { role: "user", content: "hi" }], { tools: [{}, {}] });
    const forwarded = body([system, { role: "user", content: "hi\n\n<x>" }], { tools: [{}, {}] });
    expect(compare(sent, forwarded)).toEqual([
      { kind: "same", what: "tools", count: 2, bytes: 7 },
      { kind: "same", what: "system", count: 1, bytes: 40 },
      { kind: "literal", sent: "hi", forwarded: "hi" },
      { kind: "added", text: "<x>", bytes: 5 },
      { kind: "rest", sent: '"model": "a"', forwarded: '"model": "a"' },
    ]);
  });

  it("counts what earlier turns carry, and shows only this turn's addition", () => {
    const turn = (text: string) => ({ role: "user", content: text });
    const answer = { role: "assistant", content: "ok" };
    const sent = body([turn("one"), answer, turn("two")]);
    const forwarded = body([turn("one<a>"), answer, turn("two<b>")]);
    const rows = compare(sent, forwarded);
    expect(rows[0]).toEqual({ kind: "grown", what: "messages", count: 2, bytes: 66, more: 3 });
    expect(rows.filter((row) => row.kind === "added")).toEqual([{ kind: "added", text: "<b>", bytes: 3 }]);
  });

  it("shows an added text part and a changed model", () => {
    const part = (text: string) => ({ type: "text", text });
    const sent = body([{ role: "user", content: [part("hi")] }]);
    const forwarded = body([{ role: "user", content: [part("hi"), part("<x>")] }]).replace('"a"', '"b"');
    const rows = compare(sent, forwarded);
    expect(rows.slice(0, 2)).toEqual([
      { kind: "literal", sent: "hi", forwarded: "hi" },
      { kind: "added", text: "<x>", bytes: 3 },
    ]);
    expect(rows.at(-1)).toEqual({ kind: "rest", sent: '"model": "a"', forwarded: '"model": "b"' });
  });

  it("shows the last user message even if nothing was added", () => {
    const sent = body([system, { role: "user", content: "hi" }]);
    expect(compare(sent, sent).filter((row) => row.kind === "literal")).toHaveLength(1);
  });
});

describe("what people and models said", () => {
  it("is cut into paragraphs and code, and nothing becomes markup", () => {
    expect(prose("a `b` <i>\n\n```sql\nselect\n\n1\n```\nend")).toEqual([
      { kind: "text", runs: [{ text: "a ", code: false }, { text: "b", code: true }, { text: " <i>", code: false }] },
      { kind: "code", text: "select\n\n1" },
      { kind: "text", runs: [{ text: "end", code: false }] },
    ]);
  });
  it("keeps a fence that is not closed as code", () => expect(prose("```\nx")).toEqual([{ kind: "code", text: "x" }]));
});

it("a request as a command keeps its bytes and leaves the key to the shell", () => {
  expect(curl("http://127.0.0.1:30000/v1", "openai-chat", `{"a":"it's"}`)).toBe(
    `curl 'http://127.0.0.1:30000/v1/chat/completions' -H 'content-type: application/json' -H "authorization: Bearer $METACLAW_KEY" --data-binary '{"a":"it'\\''s"}'`,
  );
});
