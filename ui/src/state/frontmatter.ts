// A SKILL.md as a form: single values of its front matter are read and replaced where they stand, so that comments,
// order and everything the form does not know stay as they are. The service checks the result.

export interface Split {
  /** The front matter between the two `---` lines, each line ended. */
  yaml: string;
  /** What follows. */
  body: string;
  /** Line of the file where the body begins, from 1. */
  line: number;
}

/** Front matter and body; null if the text does not begin with front matter. */
export function split(text: string): Split | null {
  const found = /^\uFEFF?---[ \t]*\r?\n([\s\S]*?)^---[ \t]*(?:\r?\n|$)/m.exec(text);
  if (!found || found.index !== 0) return null;
  const head = found[0];
  let body = text.slice(head.length);
  let line = head.split("\n").length;
  // The blank lines between front matter and body belong to the front matter.
  const gap = /^(?:[ \t]*\r?\n)+/.exec(body)?.[0] ?? "";
  body = body.slice(gap.length);
  line += gap.split("\n").length - 1;
  return { yaml: found[1] ?? "", body, line };
}

/** The same file with another body. */
export function withBody(text: string, body: string): string {
  const parts = split(text);
  return parts ? text.slice(0, text.length - parts.body.length) + body : body;
}

interface Place {
  /** First line of the entry and the one after its last, in lines of the front matter. */
  from: number;
  to: number;
  indent: string;
}

/** Where `a.b` stands among the lines. Only plain keys at the first or second level are looked for. */
function find(lines: readonly string[], path: string): Place | null {
  const [outer = "", inner] = path.split(".");
  const top = entry(lines, outer, 0, lines.length, "");
  if (!top || inner === undefined) return top;
  const first = lines.slice(top.from + 1, top.to).find((line) => line.trim() !== "" && !line.trim().startsWith("#"));
  const indent = /^[ \t]*/.exec(first ?? "")?.[0] ?? "";
  return indent === "" ? null : entry(lines, inner, top.from + 1, top.to, indent);
}

function entry(lines: readonly string[], key: string, from: number, to: number, indent: string): Place | null {
  for (let i = from; i < to; i++) {
    const line = lines[i] ?? "";
    if (!line.startsWith(`${indent}${key}:`)) continue;
    let end = i + 1;
    while (end < to && (lines[end]?.trim() === "" || (lines[end] ?? "").startsWith(`${indent} `))) end++;
    while (end > i + 1 && lines[end - 1]?.trim() === "") end--;
    return { from: i, to: end, indent };
  }
  return null;
}

/** The text of a value: plain, quoted, folded or literal. Empty if it is not there or is no text. */
export function value(text: string, path: string): string {
  const parts = split(text);
  if (!parts) return "";
  const lines = parts.yaml.split(/\r?\n/);
  const place = find(lines, path);
  if (!place) return "";
  const line = lines[place.from] ?? "";
  const first = line.slice(line.indexOf(":") + 1).trim();
  const more = lines.slice(place.from + 1, place.to).map((one) => one.trim());
  if (/^[>|][+-]?\d*$/.test(first)) return more.join(first.startsWith("|") ? "\n" : " ").trim();
  const whole = [first, ...more].join(" ").trim();
  if (whole.startsWith('"')) {
    const inside = /^"((?:[^"\\]|\\.)*)"/.exec(whole)?.[1] ?? "";
    return inside.replace(/\\(.)/g, (_, c: string) => ({ n: "\n", t: "\t" })[c] ?? c);
  }
  if (whole.startsWith("'")) return (/^'((?:[^']|'')*)'/.exec(whole)?.[1] ?? "").replaceAll("''", "'");
  const comment = whole.search(/\s#/);
  return (comment < 0 ? whole : whole.slice(0, comment)).trim();
}

/** A value that plain YAML would read otherwise is put in quotes. */
function scalar(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  const risky =
    line === "" ||
    /^[\s\-?:,[\]{}#&*!|>'"%@`]/.test(line) ||
    /:(\s|$)|\s#/.test(line) ||
    /^(true|false|yes|no|on|off|null|~|[-+]?[\d.]+([eE][-+]?\d+)?)$/i.test(line);
  return risky ? `"${line.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"` : line;
}

/** The file with one value replaced, put in or (empty) taken out. */
export function setValue(text: string, path: string, to: string): string {
  const parts = split(text);
  if (!parts) return text;
  const lineEnd = parts.yaml.includes("\r\n") ? "\r\n" : "\n";
  const lines = parts.yaml.split(/\r?\n/);
  if (lines.at(-1) === "") lines.pop();
  const [outer = "", inner] = path.split(".");
  const place = find(lines, path);
  const made = (indent: string): string => `${indent}${inner ?? outer}: ${scalar(to)}`;
  if (place) {
    lines.splice(place.from, place.to - place.from, ...(to.trim() === "" ? [] : [made(place.indent)]));
    const parent = inner === undefined ? null : find(lines, outer);
    if (parent && parent.to === parent.from + 1 && /:\s*$/.test(lines[parent.from] ?? "")) lines.splice(parent.from, 1);
  } else if (to.trim() !== "") {
    if (inner === undefined) lines.push(made(""));
    else {
      const parent = find(lines, outer);
      const indent = parent ? (/^[ \t]+/.exec(lines[parent.from + 1] ?? "")?.[0] ?? "  ") : "  ";
      if (parent) lines.splice(parent.to, 0, made(indent));
      else lines.push(`${outer}:`, made(indent));
    }
  }
  const start = text.indexOf(parts.yaml, text.indexOf("---") + 3);
  const from = parts.yaml === "" ? text.indexOf("\n") + 1 : start;
  const fresh = lines.length > 0 ? lines.join(lineEnd) + lineEnd : "";
  return text.slice(0, from) + fresh + text.slice(from + parts.yaml.length);
}
