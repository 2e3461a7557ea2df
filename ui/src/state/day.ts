// One day of turns as Home shows it, read from the journal page by page, newest first, back to midnight.
import { api, get, type Schemas } from "../backend";

export interface Mark {
  at: number;
  added: number;
  outcome: string;
}

export interface Day {
  /** Whether older rows were left out because the day is longer than this window reads. */
  cut: boolean;
  /** User turns. */
  turns: number;
  /** Of them with something added. */
  added: number;
  /** Side calls and tool steps. */
  others: number;
  /** Requests that failed or broke off. */
  failed: number;
  /** One mark per user turn, oldest first. */
  marks: Mark[];
  skills: { at: number; text: string }[];
  /** Facts that were learned. */
  memories: { at: number; text: string }[];
  tokens: { input: number; output: number; cached: number };
  /** Estimated tokens of what was added; every request carries them again, they count where they were chosen. */
  addedTokens: number;
  /** Median time to the first byte, ms. */
  firstByte: number | null;
  /** The newest request failed. */
  lastTrouble: { at: number; session: string; turn: number; error: string | null; outcome: string } | null;
}

const PAGE = 1000;
const PAGES = 10;

type Row = Schemas["TurnRow"];

export async function day(midnight: number): Promise<Day> {
  const rows: Row[] = [];
  let before: number | undefined;
  let cut = true;
  for (let page = 0; page < PAGES; page++) {
    const query = before === undefined ? { limit: PAGE } : { limit: PAGE, before };
    const found = await get(api.GET("/api/v1/turns", { params: { query } }));
    const ours = found.filter((row) => row.started_ms >= midnight);
    rows.push(...ours);
    before = found.at(-1)?.id;
    if (ours.length < PAGE) {
      cut = false;
      break;
    }
  }
  const events = await get(api.GET("/api/v1/events", { params: { query: { kind: "skills_changed", limit: 100 } } }));
  const skills = events
    .filter((event) => event.at_ms >= midnight)
    .map((event) => ({ at: event.at_ms, text: typeof event.data["message"] === "string" ? event.data["message"] : "" }));
  const page = await get(api.GET("/api/v1/memory", { params: { query: { limit: 1000 } } }));
  const memories = page.memories.filter((one) => one.recorded_ms >= midnight).map((one) => ({ at: one.recorded_ms, text: one.content }));
  return { ...summary(rows), cut, skills, memories };
}

/** Figures of a day from its rows, newest first. */
export function summary(rows: readonly Row[]): Omit<Day, "cut" | "skills" | "memories"> {
  const turns = new Map<string, Mark>();
  const tokens = { input: 0, output: 0, cached: 0 };
  let [others, failed, addedTokens] = [0, 0, 0];
  const waits: number[] = [];
  for (const row of [...rows].reverse()) {
    tokens.input += row.tokens.input ?? 0;
    tokens.output += row.tokens.output ?? 0;
    tokens.cached += row.tokens.cache_read ?? 0;
    if (row.outcome === "error" || row.outcome === "cut") failed++;
    if (row.first_byte_ms != null && row.outcome === "ok") waits.push(row.first_byte_ms - row.started_ms);
    if (row.kind !== "main") {
      others++;
      continue;
    }
    const key = `${row.session} ${row.turn}`;
    const known = turns.get(key);
    if (known) {
      // A later step: what was added shows up once, its outcome is the turn's.
      others++;
      known.outcome = row.outcome;
      if (known.added > 0) continue;
    }
    addedTokens += row.additions.reduce((sum, one) => sum + one.tokens, 0);
    if (known) known.added = row.additions.length;
    else turns.set(key, { at: row.started_ms, added: row.additions.length, outcome: row.outcome });
  }
  const marks = [...turns.values()];
  const newest = rows.find((row) => row.outcome !== "cancelled");
  const bad = newest && (newest.outcome === "error" || newest.outcome === "cut") ? newest : undefined;
  waits.sort((a, b) => a - b);
  return {
    turns: marks.length,
    added: marks.filter((mark) => mark.added > 0).length,
    others,
    failed,
    marks,
    tokens,
    addedTokens,
    firstByte: waits[waits.length >> 1] ?? null,
    lastTrouble: bad ? { at: bad.finished_ms, session: bad.session, turn: bad.turn, error: bad.error ?? null, outcome: bad.outcome } : null,
  };
}
