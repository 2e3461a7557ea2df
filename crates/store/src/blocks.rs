//! Injected texts, each kept once however many turns it was added to. The writer puts them in before the rows that name
//! them; deleting takes out those that no row names any more.

use std::sync::{Mutex, PoisonError};

use lru::LruCache;
use sqlx::SqliteConnection;
use xxhash_rust::xxh3::xxh3_128;

use crate::store::Shared;

/// Hashes remembered to be in the table.
const KNOWN: std::num::NonZeroUsize = std::num::NonZeroUsize::MIN.saturating_add(4095);

/// Texts that are known to be in the table.
#[derive(Debug)]
pub(crate) struct Known(Mutex<LruCache<u128, ()>>);

impl Default for Known {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(KNOWN)))
    }
}

impl Known {
    fn has(&self, hash: u128) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&hash).is_some()
    }

    fn put(&self, hash: u128) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(hash, ());
    }

    /// To be called whenever the database may have lost some.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The name of a text.
pub(crate) fn hash_of(text: &str) -> u128 {
    xxh3_128(text.as_bytes())
}

/// Puts those of `texts` into the table that are not there yet.
pub(crate) async fn put<'t>(
    conn: &mut SqliteConnection,
    shared: &Shared,
    texts: impl Iterator<Item = (u128, &'t str)>,
) -> sqlx::Result<()> {
    for (hash, text) in texts.filter(|(hash, _)| !shared.known_blocks.has(*hash)) {
        let insert = sqlx::query("INSERT OR IGNORE INTO blocks (hash, text) VALUES (?, ?)");
        insert.bind(hash.to_be_bytes().to_vec()).bind(text).execute(&mut *conn).await?;
        shared.known_blocks.put(hash);
    }
    Ok(())
}

/// Takes out the texts that no turn names any more.
pub(crate) async fn drop_unused(conn: &mut SqliteConnection, shared: &Shared) -> sqlx::Result<()> {
    let unused = "DELETE FROM blocks WHERE NOT EXISTS (SELECT 1 FROM turns WHERE block = blocks.id)";
    sqlx::query(unused).execute(conn).await?;
    shared.known_blocks.forget();
    Ok(())
}
