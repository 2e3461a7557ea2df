// Text of people and models, cut into paragraphs, fenced code and code in a line.

export type Part = { kind: "text"; runs: { text: string; code: boolean }[] } | { kind: "code"; text: string };

export function prose(text: string): Part[] {
  const parts: Part[] = [];
  let lines: string[] = [];
  let fence: string | null = null;
  const flush = (): void => {
    const joined = lines.join("\n");
    lines = [];
    for (const paragraph of joined.split(/\n[ \t]*\n+/)) {
      if (paragraph.trim() !== "") parts.push({ kind: "text", runs: runs(paragraph.replace(/^\n+|\n+$/g, "")) });
    }
  };
  for (const line of text.split("\n")) {
    const mark = /^\s*(```+|~~~+)/.exec(line)?.[1];
    if (fence === null && mark) {
      flush();
      fence = mark;
    } else if (fence !== null && mark?.startsWith(fence)) {
      parts.push({ kind: "code", text: lines.join("\n") });
      lines = [];
      fence = null;
    } else lines.push(line);
  }
  if (fence !== null) parts.push({ kind: "code", text: lines.join("\n") });
  else flush();
  return parts;
}

function runs(paragraph: string): { text: string; code: boolean }[] {
  return paragraph
    .split(/(`[^`\n]+`)/)
    .filter((run) => run !== "")
    .map((run) => (run.length > 2 && run.startsWith("`") && run.endsWith("`") ? { text: run.slice(1, -1), code: true } : { text: run, code: false }));
}
