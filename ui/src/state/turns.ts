// A session's rows as user turns: one question, the requests it took, one answer. Side calls stand apart.
import { api, get, type Schemas } from "../backend";

export type TurnRow = Schemas["TurnRow"];

export interface UserTurn {
  /** Number within the session, from 1. */
  no: number;
  /** Its requests, oldest first; more than one when the model called tools or the agent tried again. */
  rows: TurnRow[];
}

/** Longest session that is read whole. */
const MOST = 5000;

export async function sessionRows(session: string): Promise<TurnRow[]> {
  const rows: TurnRow[] = [];
  for (let after = 0; rows.length < MOST; ) {
    const page = await get(api.GET("/api/v1/turns", { params: { query: { session, after, limit: 1000 } } }));
    rows.push(...page);
    const last = page.at(-1);
    if (!last || page.length < 1000) break;
    after = last.id;
  }
  return rows;
}

export function userTurns(rows: readonly TurnRow[]): { turns: UserTurn[]; side: TurnRow[] } {
  const turns = new Map<number, UserTurn>();
  const side: TurnRow[] = [];
  for (const row of rows) {
    if (row.kind !== "main") {
      side.push(row);
      continue;
    }
    const turn = turns.get(row.turn);
    if (turn) turn.rows.push(row);
    else turns.set(row.turn, { no: row.turn, rows: [row] });
  }
  return { turns: [...turns.values()].sort((a, b) => a.no - b.no), side };
}

/** Everything that was added in a user turn, once each, best first. */
export function additions(turn: UserTurn): Schemas["Addition"][] {
  const all = new Map<string, Schemas["Addition"]>();
  for (const one of turn.rows.flatMap((row) => row.additions)) all.set(`${one.kind} ${one.id}`, one);
  return [...all.values()].sort((a, b) => b.score - a.score);
}

export interface ToolCall {
  name: string;
  arguments: string;
}

/** Tool calls of an answer in the neutral form. */
export function toolCalls(answer: unknown): ToolCall[] {
  if (typeof answer !== "object" || answer === null || !("blocks" in answer) || !Array.isArray(answer.blocks)) return [];
  return answer.blocks.flatMap((block: unknown) => {
    if (typeof block !== "object" || block === null || !("type" in block) || block.type !== "tool_call") return [];
    const name = "name" in block && typeof block.name === "string" ? block.name : "";
    const args = "arguments" in block && typeof block.arguments === "string" ? block.arguments : "";
    return [{ name, arguments: args }];
  });
}

/** The sections of an added block by the name in their heading: the text a skill or memory brought. */
export function sections(block: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const part of block.split(/^## (?=(?:Skill|Memory): )/m).slice(1)) {
    const line = part.indexOf("\n");
    const name = part.slice(part.indexOf(": ") + 2, line < 0 ? undefined : line).trim();
    const text = line < 0 ? "" : part.slice(line + 1).replace(/<\/metaclaw-context>\s*$/, "");
    found.set(name, text.trim());
  }
  return found;
}

/** Names of agents for people; unknown ones as they call themselves. */
const AGENTS: Readonly<Record<string, string>> = {
  openclaw: "OpenClaw",
  "claude-code": "Claude Code",
  claude_code: "Claude Code",
  hermes: "Hermes",
  copaw: "CoPaw",
  ironclaw: "IronClaw",
  picoclaw: "PicoClaw",
  zeroclaw: "ZeroClaw",
  nanoclaw: "NanoClaw",
  nemoclaw: "NemoClaw",
};

export const agentName = (id: string | null | undefined): string | null => (id ? (AGENTS[id.toLowerCase()] ?? id) : null);
