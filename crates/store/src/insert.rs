//! The statements that write turns and their sessions, many rows at a time, and what is bound to them.

use std::sync::LazyLock;

use sqlx::Arguments;
use sqlx::sqlite::SqliteArguments;

use crate::NewTurn;
use crate::body::Encoded;

/// Turns written by one statement: powers of two up to this one.
pub(crate) const LARGEST_CHUNK: usize = 32;

/// Columns of a turn, after its number and its session, in the order in which `bind_turn` adds their values.
#[rustfmt::skip]
pub(crate) const COLUMNS: &[&str] = &[
    "agent", "kind", "turn_no", "step", "started", "first_byte", "finished", "outcome", "status",
    "dialect", "upstream_dialect", "upstream", "model_asked", "model_sent", "stop",
    "usage_input", "usage_output", "usage_cache_read", "usage_cache_write", "usage_reasoning",
    "prior_state", "state", "weight_version", "skill_generation", "user_id", "workspace_id", "memory_scope",
    "block_hash", "block_nth", "body_base", "body_depth", "body_prefix", "body_suffix", "body_len", "body_hash",
    "body_codec", "error", "additions", "held_out", "headers", "sampling", "block", "user_text", "answer_text", "answer",
    "body", "prompt_ids", "sampled_ids", "sampled_logprobs",
];

/// Values that `bind_session` adds.
pub(crate) const SESSION_COLUMNS: usize = 6;

/// What writes `size` rows, a power of two.
pub(crate) fn insert(size: usize, first: bool, last: bool) -> &'static str {
    &INSERTS[size.ilog2() as usize * 4 + usize::from(first) * 2 + usize::from(last)]
}

/// What writes 1, 2, 4, … `LARGEST_CHUNK` rows: in the middle of a transaction, at its end, at its beginning, and as the
/// whole of it. A main turn (`turns` > 0) opens its session again.
static INSERTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let value = |column: &&str| match *column {
        "block" => ", (SELECT id FROM blocks WHERE hash = ?)",
        _ => ", ?",
    };
    let values: String = COLUMNS.iter().map(value).collect();
    let turn = format!("(?, (SELECT key FROM sessions WHERE id = ?){values})");
    let insert = |n: usize, first: bool, last: bool| {
        let (begin, commit) = ("BEGIN IMMEDIATE;", ";\nUPDATE spool SET done = max(done, ?);\nCOMMIT");
        format!(
            "{}
             INSERT INTO sessions (id, agent, started, last, turns, title, requests) VALUES {}
             ON CONFLICT (id) DO UPDATE SET
                 agent = coalesce(agent, excluded.agent),
                 last = max(last, excluded.last),
                 ended = iif(excluded.turns > 0, NULL, ended),
                 end_reason = iif(excluded.turns > 0, NULL, end_reason),
                 turns = max(turns, excluded.turns),
                 requests = requests + 1,
                 title = coalesce(title, excluded.title);
             INSERT INTO turns (id, session, {}) VALUES {}{}",
            if first { begin } else { "" },
            vec!["(?, ?, ?, ?, ?, ?, 1)"; n].join(", "),
            COLUMNS.join(", "),
            vec![turn.as_str(); n].join(", "),
            if last { commit } else { "" },
        )
    };
    let sizes = (0..=LARGEST_CHUNK.ilog2()).map(|n| 1 << n);
    let places = [(false, false), (false, true), (true, false), (true, true)];
    sizes.flat_map(|n| places.map(|(first, last)| insert(n, first, last))).collect()
});

/// Characters of the user's first words that name a session.
const TITLE: usize = 120;

pub(crate) fn bind_session(args: &mut SqliteArguments, t: &NewTurn) -> Result<(), sqlx::error::BoxDynError> {
    let main = t.kind.is_main();
    let title = t.user_text.as_deref().filter(|words| main && !words.trim().is_empty());
    args.add(t.session.as_str())?;
    args.add(t.agent.as_deref())?;
    args.add(t.started_ms)?;
    args.add(t.finished_ms)?;
    args.add(if main { t.turn_no.max(1) } else { 0 })?;
    args.add(title.map(|words| {
        let title = words.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(TITLE);
        title.collect::<String>()
    }))?;
    Ok(())
}

pub(crate) fn bind_turn(
    args: &mut SqliteArguments,
    id: i64,
    t: &NewTurn,
    e: &Encoded,
    block: Option<u128>,
) -> Result<(), sqlx::error::BoxDynError> {
    args.add(id)?;
    args.add(t.session.as_str())?;
    let hash = |h: Option<u128>| h.map(|h| h.to_be_bytes().to_vec());
    let count = |n: Option<u64>| n.map(|n| i64::try_from(n).unwrap_or(i64::MAX));
    args.add(t.agent.as_deref())?;
    args.add(t.kind.as_str())?;
    args.add(t.turn_no)?;
    args.add(t.step)?;
    args.add(t.started_ms)?;
    args.add(t.first_byte_ms)?;
    args.add(t.finished_ms)?;
    args.add(t.outcome.as_str())?;
    args.add(t.status)?;
    args.add(&*t.dialect)?;
    args.add(&*t.upstream_dialect)?;
    args.add(t.upstream.as_deref())?;
    args.add(t.model_asked.as_deref())?;
    args.add(t.model_sent.as_deref())?;
    args.add(t.stop.as_deref())?;
    args.add(count(t.usage.input))?;
    args.add(count(t.usage.output))?;
    args.add(count(t.usage.cache_read))?;
    args.add(count(t.usage.cache_write))?;
    args.add(count(t.usage.reasoning))?;
    args.add(hash(t.prior_state))?;
    args.add(hash(t.state_hash))?;
    args.add(t.weight_version)?;
    args.add(t.skill_generation)?;
    args.add(t.scope.user_id.as_deref())?;
    args.add(t.scope.workspace_id.as_deref())?;
    args.add(t.scope.memory_scope.as_deref())?;
    args.add(hash(t.block.as_ref().map(|b| b.message_hash)))?;
    args.add(t.block.as_ref().map(|b| b.occurrence))?;
    args.add(e.base)?;
    args.add(e.depth)?;
    args.add(e.prefix as i64)?;
    args.add(e.suffix as i64)?;
    args.add(e.len as i64)?;
    args.add(e.hash.cast_signed())?;
    args.add(i32::from(e.compressed))?;
    args.add(t.error.as_deref())?;
    args.add((!t.additions.is_empty()).then(|| serde_json::to_string(&t.additions)).transpose()?)?;
    args.add((!t.held_out.is_empty()).then(|| serde_json::to_string(&t.held_out)).transpose()?)?;
    args.add((!t.headers.is_empty()).then(|| serde_json::to_string(&t.headers)).transpose()?)?;
    let sampled = t.sampled.as_ref();
    args.add(sampled.and_then(|s| s.sampling.as_deref()))?;
    args.add(hash(block))?;
    args.add(t.user_text.as_deref())?;
    args.add(t.answer_text.as_deref())?;
    args.add(t.answer_json.as_deref())?;
    args.add(e.middle.as_slice())?;
    let ids = |ids: &[u32]| ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
    args.add(sampled.map(|s| ids(&s.prompt_ids)))?;
    args.add(sampled.map(|s| ids(&s.ids)))?;
    args.add(sampled.map(|s| s.logprobs.iter().flat_map(|p| p.to_le_bytes()).collect::<Vec<u8>>()))?;
    Ok(())
}
