//! Tables of long-term memory: windows with their inverted index, facts with their history. What a window says and which
//! facts contradict each other is decided in `memory`; here it is written, each step whole or not at all.

mod absorb;
mod browse;
mod facts;
mod flush;
mod forget;
mod index;
mod legacy;
mod live;
mod postings;
mod retire;
mod scrub;
mod search;
mod tidy;
mod vectors;

pub use absorb::{Absorbed, MemoryTurn, NewWindow};
pub use browse::WindowFilter;
pub use facts::{Fact, FactFilter, FactPatch, FactWords, NewFact};
pub use flush::Unheard;
pub(crate) use forget::Buried;
pub use forget::{Forget, Forgotten, ScopeOf};
pub use legacy::{Legacy, read_legacy};
pub use live::{MemoryFigures, NewWindows};
pub use postings::{CHUNK, Posting, decode, encode};
pub use retire::Retired;
pub use search::{PostingRow, ScopeInfo, TailWindow, Window};
pub use tidy::{Merge, Merged};
pub use vectors::{MemoryMeaning, Unmeant, WindowVector};

use sqlx::{SqliteConnection, SqlitePool};

/// The number of a scope, made where there is none.
async fn scope_key(conn: &mut SqliteConnection, id: &str) -> sqlx::Result<i64> {
    let known = sqlx::query_scalar("SELECT key FROM memory_scopes WHERE id = ?").bind(id);
    if let Some(key) = known.fetch_optional(&mut *conn).await? {
        return Ok(key);
    }
    sqlx::query_scalar("INSERT INTO memory_scopes (id) VALUES (?) RETURNING key").bind(id).fetch_one(conn).await
}

/// Terms as the column holds them: little-endian u32 and the impact.
fn pack(terms: &[(u32, u8)]) -> Vec<u8> {
    terms.iter().flat_map(|(term, impact)| term.to_le_bytes().into_iter().chain([*impact])).collect()
}

fn unpack(bytes: &[u8]) -> Vec<(u32, u8)> {
    let (terms, _) = bytes.as_chunks::<5>();
    terms.iter().map(|[a, b, c, d, impact]| (u32::from_le_bytes([*a, *b, *c, *d]), *impact)).collect()
}

pub(crate) fn json_list(values: impl Iterator<Item = i64>) -> String {
    serde_json::Value::from(values.collect::<Vec<_>>()).to_string()
}

fn json(values: &[String]) -> String {
    serde_json::Value::from(values).to_string()
}

type Counts = (u64, u64, u64, Option<i64>, Option<i64>);

/// Passages, those in quarantine, their sessions, and when the first and the last was said.
async fn memory_count(readers: &SqlitePool, scope: Option<&str>) -> sqlx::Result<Counts> {
    let counts: (i64, i64, i64, Option<i64>, Option<i64>) = sqlx::query_as(
        "SELECT count(*), count(CASE WHEN quarantined THEN 1 END), count(DISTINCT session), min(at), max(at)
         FROM memory_windows
         WHERE fact IS NULL AND (?1 IS NULL OR scope = (SELECT key FROM memory_scopes WHERE id = ?1))",
    )
    .bind(scope)
    .fetch_one(readers)
    .await?;
    let (windows, quarantined, sessions, first, last) = counts;
    Ok((windows.cast_unsigned(), quarantined.cast_unsigned(), sessions.cast_unsigned(), first, last))
}
