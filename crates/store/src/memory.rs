//! Tables of long-term memory: windows with their inverted index, facts with their history. What a window says and which
//! facts contradict each other is decided in `memory`; here it is written, each step whole or not at all.

mod absorb;
mod facts;
mod forget;
mod index;
mod postings;
mod search;

pub use absorb::{Absorbed, MemoryTurn, NewWindow};
pub use facts::{Fact, FactFilter, FactPatch, FactWords, NewFact};
pub use forget::{Forget, Forgotten};
pub use postings::{CHUNK, Posting, decode};
pub use search::{PostingRow, ScopeInfo, TailWindow, Window};

use sqlx::SqliteConnection;

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

fn json(values: &[String]) -> String {
    serde_json::Value::from(values).to_string()
}
